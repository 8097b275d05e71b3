//! `rerun`: a new Run from the spec of one that has ended.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use run_operator::api::template::{TemplateBody, TemplateMeta};
use run_operator::api::{Workload, names};
use run_operator::checks::Refused;
use run_operator::decide::schedule::{EACH_RUNS_OWN, Source, manifest};

use crate::args::RerunArgs;
use crate::cluster::Cluster;
use crate::error::{End, ToolError};
use crate::run::Run;
use crate::{print, submit, template};

/// Names that are tried.
const NAMES: usize = 100;
/// Keys of labels and annotations that are true of the old Run alone.
const LEFT_OUT: [&str; 6] = [
    names::INTENT_ANNOTATION,
    names::RETRY_ANNOTATION,
    names::SCHEDULED_ANNOTATION,
    "kubectl.kubernetes.io/last-applied-configuration",
    // By these a tool takes the object for a part of its release or application, and may delete it.
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/instance",
];
/// Keys of tools, of which no key of the same domain stays.
const MARKS: [&str; 5] = [
    names::ARGO_TRACKING,
    names::FLUX_KUSTOMIZATION,
    names::FLUX_HELM,
    names::HELM_RELEASE,
    names::HELM_HOOK,
];

pub(crate) async fn run(cluster: &Cluster, args: &RerunArgs) -> Result<End, ToolError> {
    let old = cluster.run(&args.name).await?;
    let name = old.name();
    if !old.ended() && !args.beside {
        return Err(ToolError::usage(format!(
            "{name} has not ended. Wait for it or cancel it; --beside runs both"
        )));
    }
    let unreadable =
        |error: serde_json::Error| ToolError::usage(format!("{name} can't be made anew: {error}"));
    let mut source = if args.set.is_empty() {
        Source {
            body: body_of(&old).map_err(unreadable)?,
            template: None,
        }
    } else {
        template::source(cluster, template_of(&old)?, &args.set).await?
    };
    source.body.spec = without_own(&source.body.spec).map_err(unreadable)?;
    let mut manifest = manifest::of_template(&source).map_err(unreadable)?;
    let names: Vec<String> = match &args.new_name {
        Some(new) => vec![new.clone()],
        None => names_after(name).take(NAMES).collect(),
    };
    let has_a_choice = names.len() > 1;
    for new in names {
        manifest.metadata.name = Some(new.clone());
        let object = serde_json::to_string(&manifest).map_err(unreadable)?;
        match submit::create(cluster, object, false).await {
            Ok(run) => {
                print::object(&run, args.output, "created")?;
                return Ok(End::Succeeded);
            }
            Err(Refused::Status(status)) if status.reason == "AlreadyExists" && has_a_choice => {}
            Err(refused) => return Err(submit::not_created(cluster, &new, false, refused)),
        }
    }
    Err(ToolError::usage(format!(
        "the next {NAMES} names after {name} are taken; choose one with --name"
    )))
}

/// The names of further Runs, in order: `train-r2` is the first after `train`, and `train-r4` after `train-r3`.
fn names_after(name: &str) -> impl Iterator<Item = String> {
    let numbered = name.rsplit_once("-r").and_then(|(stem, number)| {
        let digits = number.bytes().all(|byte| byte.is_ascii_digit());
        let number: u32 = number.parse().ok().filter(|_| digits)?;
        Some((stem, number))
    });
    let (stem, number) = numbered.unwrap_or((name, 1));
    (1..).map(move |further| format!("{stem}-r{}", u64::from(number) + further))
}

/// The name of the template that the Run is from.
fn template_of(run: &Run) -> Result<&str, ToolError> {
    let annotations = run.metadata.annotations.as_ref();
    let origin = annotations.and_then(|all| all.get(names::TEMPLATE_ANNOTATION));
    let Some(origin) = origin else {
        return Err(ToolError::usage(format!(
            "--set: {} is not from a RunTemplate (it has no annotation {}); without --set its own spec is taken",
            run.name(),
            names::TEMPLATE_ANNOTATION
        )));
    };
    Ok(origin
        .rsplit_once('@')
        .map_or(origin.as_str(), |(name, _)| name))
}

/// The Run's spec, and of its labels and annotations those that are not the old object's alone.
fn body_of(run: &Run) -> serde_json::Result<TemplateBody> {
    #[derive(Deserialize)]
    struct Object {
        spec: Workload,
    }
    let Object { spec } = serde_json::from_str(run.text())?;
    let kept = |all: &Option<BTreeMap<String, String>>| {
        let all = all.iter().flatten();
        let kept = all.filter(|(key, _)| stays(key));
        kept.map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    Ok(TemplateBody {
        metadata: TemplateMeta {
            labels: kept(&run.metadata.labels),
            annotations: kept(&run.metadata.annotations),
        },
        spec,
    })
}

fn stays(key: &str) -> bool {
    let domain = |key: &str| key.split_once('/').map(|(domain, _)| domain.to_owned());
    let is_of_a_tool = MARKS.iter().any(|mark| domain(mark) == domain(key));
    !is_of_a_tool && !LEFT_OUT.contains(&key)
}

/// The spec without what is each Run's own. The rest is kept as text: a workload may be of any depth.
fn without_own(spec: &Workload) -> serde_json::Result<Workload> {
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(spec.as_str())?;
    fields.retain(|name, _| !EACH_RUNS_OWN.contains(&name.as_str()));
    serde_json::from_str(&serde_json::to_string(&fields)?)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    /// Proves: K-submit
    #[rstest]
    #[case("train", "train-r2", "train-r3")]
    #[case("train-r2", "train-r3", "train-r4")]
    #[case("train-r9", "train-r10", "train-r11")]
    #[case("train-r", "train-r-r2", "train-r-r3")]
    #[case("train-rx2", "train-rx2-r2", "train-rx2-r3")]
    #[case("my-run", "my-run-r2", "my-run-r3")]
    fn the_next_names_count_up(#[case] name: &str, #[case] next: &str, #[case] after: &str) {
        let names: Vec<String> = names_after(name).take(2).collect();
        assert_eq!(names, [next, after]);
    }

    fn old(annotations: &Value) -> Run {
        let object = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
            "metadata": {
                "name": "train", "uid": "u", "resourceVersion": "7", "finalizers": ["run-operator.dev/cancel"],
                "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}],
                "labels": {
                    "team": "vision", names::FLUX_KUSTOMIZATION: "apps",
                    "kustomize.toolkit.fluxcd.io/namespace": "flux", "app.kubernetes.io/managed-by": "Helm",
                },
                "annotations": annotations,
            },
            "spec": {
                "workload": {"image": "i", "suspend": true}, "priority": 3, "cancel": true, "suspend": false,
                "idempotencyKey": "k",
            },
            "status": {},
        });
        Run::from_text(&object.to_string()).unwrap()
    }

    /// Proves: K-submit
    #[test]
    fn a_new_run_has_what_is_not_the_old_ones_alone() {
        let annotations = json!({
            "note": "n", names::TEMPLATE_ANNOTATION: "t@2", names::INTENT_ANNOTATION: "{}",
            names::RETRY_ANNOTATION: "1", names::SCHEDULED_ANNOTATION: "2026-11-30T02:17:00Z",
            names::ARGO_TRACKING: "app", "argocd.argoproj.io/sync-wave": "1", names::HELM_RELEASE: "r",
            "meta.helm.sh/release-namespace": "n",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        });
        let mut body = body_of(&old(&annotations)).unwrap();
        body.spec = without_own(&body.spec).unwrap();
        let source = Source {
            body,
            template: None,
        };
        let new = serde_json::to_value(manifest::of_template(&source).unwrap()).unwrap();
        let expected = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
            "metadata": {
                "labels": {"team": "vision"},
                "annotations": {"note": "n", names::TEMPLATE_ANNOTATION: "t@2"},
            },
            "spec": {"workload": {"image": "i", "suspend": true}, "priority": 3},
        });
        assert_eq!(new, expected);
    }

    /// Proves: K-submit
    #[test]
    fn the_template_is_that_of_the_annotation() {
        let run = old(&json!({names::TEMPLATE_ANNOTATION: "nightly@12"}));
        assert_eq!(template_of(&run).unwrap(), "nightly");
        let error = template_of(&old(&json!({}))).unwrap_err().to_string();
        assert!(error.contains("is not from a RunTemplate"), "{error}");
    }
}
