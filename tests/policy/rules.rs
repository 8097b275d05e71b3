//! A Workspace's rules and defaults for its Runs: from when they count, and what they no longer touch.

use rstest::rstest;
use run_operator::api::{Intent, RunDefaults, RunSpec, WorkspaceSpec};

use crate::support::{Case, hopeless, intent_of, lost, problem, view};

const DEFAULTS: RunDefaults = RunDefaults {
    active_deadline_seconds: Some(30),
    ttl_seconds_after_finished: Some(60),
};

fn list(entries: &[&str]) -> Vec<String> {
    entries.iter().map(|entry| (*entry).to_owned()).collect()
}

fn providers(entries: &'static [&str]) -> impl Fn(&mut WorkspaceSpec) {
    move |rules| rules.allowed_providers = Some(list(entries))
}

fn regions(entries: &'static [&str]) -> impl Fn(&mut WorkspaceSpec) {
    move |rules| rules.allowed_regions = Some(list(entries))
}

fn images(entries: &'static [&str]) -> impl Fn(&mut WorkspaceSpec) {
    move |rules| rules.allowed_images = Some(list(entries))
}

fn nothing(_: &mut RunSpec) {}

/// The Run's image is `ghcr.io/acme/train:1.4`.
/// Proves: P-rules
#[rstest]
#[case::no_rule(|_: &mut WorkspaceSpec| {}, nothing, None)]
#[case::provider(providers(&["aws", "gcp"]), |s: &mut RunSpec| s.provider = Some("gcp".into()), None)]
#[case::no_provider_is_auto(providers(&["aws", "auto"]), nothing, None)]
#[case::auto_is_a_value(providers(&["aws"]), nothing, Some("ProviderNotAllowed"))]
#[case::provider_is_no_prefix(
    providers(&["gc"]), |s: &mut RunSpec| s.provider = Some("gcp".into()), Some("ProviderNotAllowed"))]
#[case::region(regions(&["eu"]), |s: &mut RunSpec| s.region = Some("eu".into()), None)]
#[case::another_region(regions(&["eu"]), nothing, Some("RegionNotAllowed"))]
#[case::image(images(&["ghcr.io/other/", "ghcr.io/acme/"]), nothing, None)]
#[case::whole_image(images(&["ghcr.io/acme/train:1.4"]), nothing, None)]
#[case::another_image(images(&["ghcr.io/acme/tool"]), nothing, Some("ImageNotAllowed"))]
fn a_run_is_submitted_only_with_what_its_workspace_allows(
    #[case] rules: impl FnOnce(&mut WorkspaceSpec),
    #[case] spec: impl FnOnce(&mut RunSpec),
    #[case] refused: Option<&str>,
) {
    let case = Case::new().rules(rules).spec(spec);
    let does = if refused.is_some() {
        "nothing"
    } else {
        "intent"
    };
    assert_eq!(case.does(), does);
    assert_eq!(case.stalled().as_deref(), refused);
    // It resumes when the list is changed.
    assert_eq!(
        case.settle()
            .rules(|rules| *rules = WorkspaceSpec::default())
            .does(),
        "intent"
    );
}

/// Proves: P-rules
#[test]
fn a_refused_run_shows_the_rule_and_what_is_allowed() {
    let case = Case::new().rules(images(&["ghcr.io/platform/", "quay.io/platform/"]));
    let status = case.settled();
    let stalled = status.conditions.iter().find(|c| c.type_ == "Stalled");
    assert_eq!(
        stalled.unwrap().message,
        "The Workspace default in namespace team doesn't allow the image ghcr.io/acme/train:1.4, by its \
         spec.allowedImages. Nothing is submitted. Create a new Run with one that begins with: \
         ghcr.io/platform/, quay.io/platform/. Or have the list changed."
    );
}

#[test]
fn of_a_long_list_a_message_has_the_first() {
    let many = (10..74)
        .map(|n| format!("provider-of-some-length-{n}"))
        .collect();
    let case = Case::new().rules(|rules| rules.allowed_providers = Some(many));
    let status = case.settled();
    let stalled = status.conditions.iter().find(|c| c.type_ == "Stalled");
    let said = &stalled.unwrap().message;
    assert!(said.contains("provider-of-some-length-10, "), "{said}");
    assert!(said.contains("-18 and 55 others. Or have"), "{said}");
}

/// Proves: P-rules
#[rstest]
#[case::announced(Case::new().mine(), "submit")]
#[case::in_doubt(Case::new().mine().posted(Err(lost())).at(60), "submit")]
#[case::submitted(Case::new().submitted("running"), "refresh")]
#[case::deleted(Case::new().submitted("running").deleting(), "cancel")]
fn a_later_rule_touches_no_run_that_has_an_intent(#[case] case: Case, #[case] does: &str) {
    assert_eq!(case.rules(providers(&["aws"])).does(), does);
}

/// Anyone can write an intent.
/// Proves: P-rules
#[rstest]
#[case::announced(Case::new().intent("earlier", 1))]
#[case::deleted(Case::new().intent("earlier", 1).deleting())]
fn a_submission_that_another_process_began_is_asked_again(#[case] case: Case) {
    assert_eq!(case.does(), "intent");
    let refused = case.rules(providers(&["aws"]));
    assert_eq!(refused.does(), "nothing");
    assert_eq!(refused.stalled().as_deref(), Some("ProviderNotAllowed"));
    assert_eq!(refused.settle().orphan().does(), "release");
}

#[test]
fn a_retry_is_a_new_submission_by_the_rules_of_its_time() {
    let retried = |answer| {
        let case = Case::new().mine().posted(Err(answer)).settle();
        case.retry("1").rules(providers(&["aws"]))
    };
    let doubted = retried(hopeless());
    assert_eq!(doubted.does(), "intent", "it is the same submission");
    let case = retried(problem(403, "no"));
    assert_eq!(case.does(), "nothing");
    assert_eq!(case.stalled().as_deref(), Some("ProviderNotAllowed"));
}

/// Its Workspace has defaults, and its intent is written.
fn announced() -> Case {
    let case = Case::new().rules(|rules| rules.run_defaults = Some(DEFAULTS));
    let (intent, _, clean) = intent_of(&case);
    case.finalizer().intent_written(intent, clean)
}

fn running() -> Case {
    announced().posted(Ok(view("running"))).settle()
}

fn changed(case: Case) -> Case {
    case.rules(|rules| rules.run_defaults = None)
}

/// Proves: P-rules, P-deadline
#[rstest]
#[case::unchanged(running())]
#[case::changed_before_the_answer(changed(announced()).posted(Ok(view("running"))).settle())]
#[case::changed_later(changed(running()))]
#[case::changed_and_restarted(changed(running()).restarted())]
#[case::its_status_lost({
    let mut case = changed(running()).restarted();
    case.run.status = None;
    case
})]
fn the_deadline_of_the_submission_s_defaults_is_in_force(#[case] case: Case) {
    let case = case.got(Ok(view("running"))).settle();
    assert_eq!(case.settled().run_defaults, Some(DEFAULTS));
    assert_ne!(case.clone().at(30).does(), "cancel");
    assert_eq!(case.at(31).does(), "cancel");
}

/// Proves: P-rules
#[test]
fn the_run_s_own_value_outranks_the_default_as_long_as_it_is_set() {
    let own = running()
        .spec(|s| s.active_deadline_seconds = Some(90))
        .settle();
    assert_ne!(own.clone().at(60).does(), "cancel");
    let unset = own.spec(|s| s.active_deadline_seconds = None);
    assert_eq!(unset.at(60).does(), "cancel");
}

/// Proves: P-rules, P-ttl
#[rstest]
#[case::of_a_submitted_run(running().got(Ok(view("succeeded"))))]
#[case::of_a_refused_one(announced().posted(Err(problem(422, "bad"))))]
#[case::of_one_cancelled_before_its_submission(
    Case::new().rules(|r| r.run_defaults = Some(DEFAULTS)).spec(|s| s.cancel = Some(true)))]
fn the_default_ttl_deletes_the_object_whatever_changes_later(#[case] case: Case) {
    let mut case = changed(case.settle()).read_on().settle();
    assert_eq!(
        case.run.status.as_ref().unwrap().run_defaults,
        Some(DEFAULTS)
    );
    case.run.metadata.finalizers = None;
    assert_eq!(case.clone().at(59).does(), "nothing");
    assert_eq!(case.at(61).does(), "delete");
}

#[test]
fn without_defaults_the_status_shows_none() {
    let status = Case::new().mine().posted(Ok(view("running"))).settled();
    assert_eq!(status.run_defaults, None);
}

/// The API server would refuse a status with these for ever.
/// Proves: X-forged
#[test]
fn defaults_that_the_schema_would_refuse_are_left_out_of_the_status() {
    let forged = Intent {
        run_defaults: Some(RunDefaults {
            active_deadline_seconds: Some(0),
            ttl_seconds_after_finished: Some(-1),
        }),
        ..Case::new().an_intent("me", 1)
    };
    let case = Case::new().finalizer().intent_written(forged, true);
    let status = case.posted(Ok(view("running"))).settled();
    assert_eq!(status.run_defaults, None);
}
