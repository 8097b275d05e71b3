//! The objects by what their status says, counted when somebody asks. Only words that the catalogue knows
//! become labels: a status may hold any.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{ResourceExt, runtime::reflector::Store};

use crate::api::{
    ConditionType, Phase, Run,
    conditions::{find, is_true},
    intent::IntentRecord,
    names,
    run::WorkspaceKind,
    workspace::AnyWorkspace,
};

use super::{
    context::{Context, wall},
    metrics::{
        Metrics,
        catalogue::{NOT_READY, OTHER, PHASES, STALLED},
    },
};

/// How many there are of each word.
type Counts = BTreeMap<&'static str, usize>;

/// What is counted of Runs.
#[derive(Default)]
struct Runs {
    phases: Counts,
    stalled: Counts,
    in_doubt: i64,
    oldest_doubt: Option<Timestamp>,
}

/// What is counted of the Workspaces of one kind.
#[derive(Default)]
struct Workspaces {
    ready: Counts,
}

/// Counts the objects in the stores.
pub(super) fn take(ctx: &Context) {
    let mut runs = Runs::default();
    for object in ctx.run_stores().flat_map(Store::state) {
        match &object.0 {
            Ok(run) => runs.add(run),
            Err(_) => *runs.phases.entry("Pending").or_default() += 1,
        }
    }
    runs.tell(&ctx.metrics);
    ctx.metrics
        .remembered
        .set(i64::try_from(ctx.objects.count()).unwrap_or(i64::MAX));

    let mut not_ready = Counts::new();
    let mut own = Workspaces::default();
    for object in ctx.workspace_stores.iter().flat_map(Store::state) {
        own.add(object.0.as_ref().ok(), &mut not_ready);
    }
    own.tell(&ctx.metrics, WorkspaceKind::Workspace);
    let mut shared = Workspaces::default();
    for object in ctx.cluster_stores.iter().flat_map(Store::state) {
        shared.add(object.0.as_ref().ok(), &mut not_ready);
    }
    shared.tell(&ctx.metrics, WorkspaceKind::ClusterWorkspace);
    for reason in NOT_READY {
        ctx.metrics.set_not_ready(reason, of(&not_ready, reason));
    }
}

fn of(counts: &Counts, word: &str) -> usize {
    counts.get(word).copied().unwrap_or_default()
}

/// The word as the catalogue has it.
fn known(words: &[&'static str], word: &str) -> &'static str {
    words.iter().copied().find(|w| *w == word).unwrap_or(OTHER)
}

impl Runs {
    fn add(&mut self, run: &Run) {
        let status = run.status.as_ref();
        let phase = status.and_then(|s| s.phase).unwrap_or(Phase::Pending);
        *self.phases.entry(word(phase)).or_default() += 1;
        let conditions: &[Condition] = status.map_or(&[], |s| &s.conditions);
        if let Some(stalled) = find(conditions, ConditionType::Stalled)
            && stalled.status == "True"
            && !is_true(conditions, ConditionType::Finished)
        {
            let reason = known(STALLED, &stalled.reason);
            *self.stalled.entry(reason).or_default() += 1;
        }
        let settled = status.is_some_and(|s| s.run_id.is_some() || s.refusal.is_some());
        let record = run.annotations().get(names::INTENT_ANNOTATION);
        let uid = run.uid().unwrap_or_default();
        if !settled
            && !run.ended()
            && let IntentRecord::Own(intent) = IntentRecord::read(record.map(String::as_str), &uid)
        {
            self.in_doubt += 1;
            let oldest = self.oldest_doubt.unwrap_or(intent.time).min(intent.time);
            self.oldest_doubt = Some(oldest);
        }
    }

    fn tell(&self, metrics: &Metrics) {
        for phase in PHASES {
            metrics.set_runs(phase, of(&self.phases, phase));
        }
        for reason in STALLED {
            metrics.set_stalled(reason, of(&self.stalled, reason));
        }
        metrics.runs_in_doubt.set(self.in_doubt);
        let age = |since| wall().duration_since(since).as_secs().max(0);
        metrics.oldest_doubt.set(self.oldest_doubt.map_or(0, age));
    }
}

impl Workspaces {
    /// Counts one; nothing is one that can't be decoded.
    fn add(&mut self, workspace: Option<&impl AnyWorkspace>, not_ready: &mut Counts) {
        let status = workspace.and_then(AnyWorkspace::stored);
        let ready = status.and_then(|s| find(&s.conditions, ConditionType::Ready));
        let shown = match ready.map(|condition| condition.status.as_str()) {
            Some("True") => "True",
            Some("False") => "False",
            _ => "Unknown",
        };
        *self.ready.entry(shown).or_default() += 1;
        if shown != "True" {
            let reason = known(NOT_READY, ready.map_or("", |condition| &condition.reason));
            *not_ready.entry(reason).or_default() += 1;
        }
    }

    fn tell(&self, metrics: &Metrics, kind: WorkspaceKind) {
        let kind = match kind {
            WorkspaceKind::Workspace => "Workspace",
            WorkspaceKind::ClusterWorkspace => "ClusterWorkspace",
        };
        for shown in ["True", "False", "Unknown"] {
            metrics.set_workspaces(kind, shown, of(&self.ready, shown));
        }
    }
}

fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "Pending",
        Phase::Active => "Active",
        Phase::Cancelling => "Cancelling",
        Phase::Succeeded => "Succeeded",
        Phase::Failed => "Failed",
        Phase::Cancelled => "Cancelled",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(phase: &str, conditions: &serde_json::Value) -> Run {
        let workspace =
            json!({"kind": "Workspace", "name": "default", "uid": "w", "baseUrl": "https://a"});
        let intent = json!({
            "uid": "u", "workspace": workspace, "key": "u", "sha256": "", "serializer": 1,
            "time": "2026-01-01T00:00:00Z", "owner": "p", "epoch": 1,
        });
        let run = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
            "metadata": {"name": "train", "uid": "u", "annotations": {names::INTENT_ANNOTATION: intent.to_string()}},
            "spec": {"workload": {"image": "a"}},
            "status": {"observedGeneration": 1, "phase": phase, "conditions": conditions},
        });
        serde_json::from_value(run).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn condition(kind: &str, reason: &str) -> serde_json::Value {
        let at = "2026-01-01T00:00:00Z";
        json!({"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": at})
    }

    #[test]
    fn a_run_waits_for_a_person_as_long_as_it_is_stalled_and_not_finished() {
        let mut runs = Runs::default();
        let refused = condition("Stalled", "Forbidden");
        runs.add(&run("Pending", &json!([refused])));
        runs.add(&run("Pending", &json!([condition("Stalled", "made-up")])));
        let finished = condition("Finished", "Failed");
        runs.add(&run(
            "Failed",
            &json!([condition("Stalled", "Failed"), finished]),
        ));
        assert_eq!(runs.stalled, Counts::from([("Forbidden", 1), (OTHER, 1)]));
        assert_eq!(runs.phases, Counts::from([("Pending", 2), ("Failed", 1)]));
        // The one that has ended is in no doubt.
        assert_eq!(runs.in_doubt, 2);
        assert!(runs.oldest_doubt.is_some());
    }

    #[test]
    fn an_answer_ends_the_doubt_and_the_oldest_intent_counts() {
        let mut runs = Runs::default();
        let mut refused = run("Pending", &json!([]));
        if let Some(status) = &mut refused.status {
            let refusal = json!({"reason": "Forbidden", "notCreated": true, "epoch": 1});
            status.refusal = serde_json::from_value(refusal).ok();
            assert!(status.refusal.is_some());
        }
        runs.add(&refused);
        assert_eq!((runs.in_doubt, runs.oldest_doubt), (0, None));
        let since = |year: &str| {
            let mut run = run("Pending", &json!([]));
            for record in run.annotations_mut().values_mut() {
                *record = record.replace("2026-01-01", year);
            }
            run
        };
        for year in ["2025-01-01", "2024-01-01", "2026-01-01"] {
            runs.add(&since(year));
        }
        assert_eq!(runs.in_doubt, 3);
        let oldest = runs.oldest_doubt.map(|at| at.to_string());
        assert_eq!(oldest.as_deref(), Some("2024-01-01T00:00:00Z"));
    }
}
