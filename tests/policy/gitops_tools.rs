//! Objects that Argo CD, Flux or Helm would create again, and their TTL.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use proptest::prelude::*;
use rstest::rstest;
use run_operator::{
    api::{EventReason, Phase, Run},
    decide::{Effect, EventDraft, ttl::tracked_by},
};

use crate::{
    histories::{self, apply, turns},
    support::{Case, view},
};

/// Sets a tool's marks on an object: `@` begins an annotation, `by ` a field manager, all else is a label.
fn mark(run: &mut Run, marks: &[&str]) {
    unmark(run, marks);
    let meta = &mut run.metadata;
    for mark in marks {
        if let Some(name) = mark.strip_prefix("by ") {
            let entry = ManagedFieldsEntry {
                manager: Some(name.to_owned()),
                ..ManagedFieldsEntry::default()
            };
            meta.managed_fields.get_or_insert_default().push(entry);
            continue;
        }
        let (kept, name) = kept(meta, mark);
        kept.get_or_insert_default()
            .insert(name.to_owned(), "team".to_owned());
    }
}

fn unmark(run: &mut Run, marks: &[&str]) {
    let meta = &mut run.metadata;
    for mark in marks {
        if let (Some(name), Some(entries)) = (mark.strip_prefix("by "), &mut meta.managed_fields) {
            entries.retain(|entry| entry.manager.as_deref() != Some(name));
        }
        let (kept, name) = kept(meta, mark);
        kept.as_mut().and_then(|kept| kept.remove(name));
    }
}

fn kept<'a>(
    meta: &'a mut ObjectMeta,
    mark: &'a str,
) -> (&'a mut Option<BTreeMap<String, String>>, &'a str) {
    match mark.strip_prefix('@') {
        Some(name) => (&mut meta.annotations, name),
        None => (&mut meta.labels, mark),
    }
}

/// A Run that succeeded at second 0 and was released, with a TTL of ten seconds.
fn succeeded(marks: &[&str]) -> Case {
    let mut case = Case::new().spec(|s| s.ttl_seconds_after_finished = Some(10));
    mark(&mut case.run, marks);
    let mut case = case
        .submitted("running")
        .got(Ok(view("succeeded")))
        .settle();
    case.run.metadata.finalizers = None;
    case
}

/// The tool and its mark, as the status names them; empty without one.
fn kept_by(case: &Case) -> String {
    case.settled().kept_by.unwrap_or_default()
}

const TRACKING: &str = "@argocd.argoproj.io/tracking-id";
const ARGO: &str = "by argocd-controller";
const ARGO_REPLACED: &str = "by argocd-application-controller";
const ARGO_HOOK: &str = "@argocd.argoproj.io/hook";
const KUSTOMIZATION: &str = "kustomize.toolkit.fluxcd.io/name";
const HELM_RELEASE_OF_FLUX: &str = "helm.toolkit.fluxcd.io/name";
const RELEASE: &str = "@meta.helm.sh/release-name";
const HELM_HOOK: &str = "@helm.sh/hook";
const INSTANCE: &str = "app.kubernetes.io/instance";

/// Proves: P-ttl, P-recipes
#[rstest]
#[case::nobody(&[], None)]
#[case::somebody_else(&["app.kubernetes.io/name", "app.kubernetes.io/managed-by", "@example.com/note"], None)]
#[case::kubectl(&["by kubectl-client-side-apply", "by kubectl", INSTANCE], None)]
#[case::a_person_in_argo_s_interface(&["by argocd-server"], None)]
#[case::another_namespace_of_flux(&["kustomize.toolkit.fluxcd.io/namespace"], None)]
#[case::argo_by_annotation(&[TRACKING], Some("Argo CD"))]
#[case::argo_by_a_label_of_any_name(&["example.com/app", ARGO], Some("Argo CD"))]
#[case::argo_that_replaced_it(&[INSTANCE, ARGO_REPLACED], Some("Argo CD"))]
#[case::the_label_of_kustomize_and_charts_alone(&[INSTANCE], None)]
#[case::argo_of_a_chart(&[INSTANCE, TRACKING, "app.kubernetes.io/managed-by"], Some("Argo CD"))]
#[case::argo_that_took_over_a_release(&[TRACKING, RELEASE], Some("Argo CD"))]
#[case::flux(&[KUSTOMIZATION, "kustomize.toolkit.fluxcd.io/namespace"], Some("Flux"))]
#[case::flux_of_a_chart(&[HELM_RELEASE_OF_FLUX, RELEASE, INSTANCE], Some("Flux"))]
#[case::helm(&[RELEASE, "@meta.helm.sh/release-namespace"], Some("Helm"))]
#[case::helm_with_the_usual_labels(&[RELEASE, INSTANCE], Some("Helm"))]
#[case::hook_of_argo(&[ARGO_HOOK, TRACKING], None)]
#[case::hook_that_argo_applied(&[ARGO_HOOK, ARGO, ARGO_REPLACED], None)]
#[case::hook_of_helm(&[HELM_HOOK, INSTANCE], None)]
#[case::hook_of_helm_with_its_release(&[HELM_HOOK, RELEASE], None)]
#[case::hook_of_helm_by_argo(&[HELM_HOOK, ARGO, TRACKING], None)]
#[case::hook_of_helm_by_flux(&[HELM_HOOK, HELM_RELEASE_OF_FLUX], None)]
#[case::hook_of_argo_that_helm_installed(&[ARGO_HOOK, INSTANCE, RELEASE], Some("Helm"))]
#[case::hook_of_argo_that_flux_applied(&[ARGO_HOOK, KUSTOMIZATION], Some("Flux"))]
#[case::hook_of_helm_that_flux_applied(&[HELM_HOOK, KUSTOMIZATION], Some("Flux"))]
fn a_ttl_deletes_no_object_that_would_come_back(
    #[case] marks: &[&str],
    #[case] tool: Option<&str>,
) {
    let case = succeeded(marks);
    assert_eq!(tracked_by(&case.run.metadata).map(|by| by.tool), tool);
    assert_eq!(case.clone().at(10).does(), "nothing");
    let due = case.clone().at(11);
    let keeper = kept_by(&due);
    if let Some(tool) = tool {
        assert_eq!(due.does(), "nothing");
        assert_eq!(
            due.decide().requeue_at,
            None,
            "nothing will be due later either"
        );
        assert!(keeper.starts_with(&format!("{tool} (")), "{keeper}");
        let mark = keeper[tool.len() + 2..].trim_end_matches(')');
        let mark = mark.trim_start_matches("field manager ");
        assert!(marks.iter().any(|m| m.ends_with(mark)), "{keeper}");
    } else {
        assert_eq!(due.does(), "delete");
        assert_eq!(keeper, "");
    }
}

/// Proves: P-ttl
#[rstest]
#[case::failed("failed", Phase::Failed)]
#[case::cancelled_elsewhere("cancelled", Phase::Cancelled)]
fn however_a_run_ends_its_marks_keep_it(#[case] state: &str, #[case] phase: Phase) {
    let mut case = Case::new().spec(|s| s.ttl_seconds_after_finished = Some(0));
    mark(&mut case.run, &[TRACKING]);
    let case = case.submitted("running").got(Ok(view(state))).settle();
    assert_eq!(case.settled().phase, Some(phase));
    assert_eq!(case.does(), "release", "the finalizer goes all the same");
    let unsubmitted = Case::new().spec(|s| {
        s.ttl_seconds_after_finished = Some(0);
        s.cancel = Some(true);
    });
    assert_eq!(unsubmitted.does(), "delete");
    let mut kept = unsubmitted;
    mark(&mut kept.run, &[TRACKING]);
    assert_eq!(kept.does(), "nothing");
}

fn of_the_ttl(event: &EventDraft) -> bool {
    event.reason == EventReason::TtlIgnored
}

/// The write of the end shows it, and no other write is needed for it.
/// Proves: P-ttl
#[test]
fn an_ignored_ttl_is_written_with_the_end_and_is_one_event() {
    let mut case = Case::new().spec(|s| s.ttl_seconds_after_finished = Some(10));
    mark(&mut case.run, &[TRACKING]);
    let case = case.submitted("running").got(Ok(view("succeeded")));
    let ends = case.decide();
    let ignored = ends.events.iter().find(|e| of_the_ttl(e)).unwrap();
    let text = "ttlSecondsAfterFinished doesn't apply: Argo CD (argocd.argoproj.io/tracking-id) would create this object again, as a new Run. To delete it, remove it there.";
    assert_eq!(ignored.message, text);
    let case = case.settle().read_on();
    let next = case.decide();
    assert!(
        matches!(next.effect, Some(Effect::Release { .. })),
        "{next:?}"
    );
    assert!(next.status.is_none() && case.news().is_empty(), "{next:?}");
    // If a process ended before it could publish it, the next one does, under the same name.
    let restarted = case.restarted();
    let soon = restarted.decide();
    assert!(soon.status.is_none());
    assert_eq!(soon.events.iter().find(|e| of_the_ttl(e)), Some(ignored));
    let late = restarted.at(300).decide();
    assert!(!late.events.iter().any(of_the_ttl), "it is old then");
}

/// Proves: P-ttl
#[test]
fn marks_and_ttls_that_come_and_go_after_the_end_are_followed() {
    let case = succeeded(&[]);
    // The mark comes before the TTL is due: no write, no deletion is overtaken by it.
    let mut marked = case.clone();
    mark(&mut marked.run, &[KUSTOMIZATION]);
    assert!(matches!(marked.news().as_slice(), [event] if of_the_ttl(event)));
    // However late it comes.
    let late = marked.clone().at(86_400);
    assert!(matches!(late.news().as_slice(), [event] if of_the_ttl(event)));
    let mut marked = marked.settle();
    assert_eq!(kept_by(&marked), format!("Flux ({KUSTOMIZATION})"));
    assert_eq!(marked.clone().at(1000).does(), "nothing");
    // Another tool takes over: another keeper, and no Event.
    mark(&mut marked.run, &[TRACKING]);
    unmark(&mut marked.run, &[KUSTOMIZATION]);
    assert_eq!(marked.news(), []);
    assert_eq!(kept_by(&marked), format!("Argo CD ({})", &TRACKING[1..]));
    // The TTL is taken out, then the mark.
    let without = marked.clone().spec(|s| s.ttl_seconds_after_finished = None);
    assert_eq!(kept_by(&without), "");
    unmark(&mut marked.run, &[TRACKING]);
    assert_eq!(kept_by(&marked), "");
    assert_eq!(marked.at(11).does(), "delete");
}

/// It doesn't outlive anything then.
#[test]
fn of_an_object_that_is_being_deleted_no_ttl_is_spoken() {
    let mut case = Case::new().spec(|s| s.ttl_seconds_after_finished = Some(10));
    mark(&mut case.run, &[TRACKING]);
    let case = case.submitted("running").deleting();
    let case = case.got(Ok(view("succeeded"))).settle();
    assert_eq!(kept_by(&case), "");
    assert_eq!(case.reasons(), ["Submitted", "Succeeded"]);
}

#[test]
fn without_a_ttl_it_is_not_mentioned() {
    let mut case = Case::new();
    mark(&mut case.run, &[TRACKING, KUSTOMIZATION]);
    let case = case.submitted("running").got(Ok(view("succeeded")));
    assert!(!case.decide().events.iter().any(of_the_ttl));
    assert_eq!(kept_by(&case), "");
}

const MARKS: &[&str] = &[
    TRACKING,
    ARGO,
    ARGO_REPLACED,
    ARGO_HOOK,
    KUSTOMIZATION,
    HELM_RELEASE_OF_FLUX,
    RELEASE,
    HELM_HOOK,
    INSTANCE,
];

proptest! {
    #![proptest_config(histories::config(600))]

    /// Proves: P-ttl
    #[test]
    fn an_object_managed_by_gitops_is_never_deleted_by_its_ttl(
        marks in prop::sample::subsequence(MARKS, 1..=4),
        turns in turns(),
        end in prop::sample::select(vec!["succeeded", "failed", "cancelled", "running"]),
    ) {
        let mut case = Case::new().spec(|s| s.ttl_seconds_after_finished = Some(0));
        mark(&mut case.run, &marks);
        let tracked = tracked_by(&case.run.metadata).is_some();
        let mut case = case.submitted("running").got(Ok(view(end))).settle();
        for turn in &turns {
            case = apply(case, turn);
            // A strip takes every annotation; the tool puts its own back.
            mark(&mut case.run, &marks);
            let deletes = case.does() == "delete";
            prop_assert!(!(deletes && tracked), "{marks:?}");
        }
    }
}
