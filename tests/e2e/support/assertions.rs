//! Assertions of the tests of bad input, faults and tokens.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde_json::Value;

use run_operator::api::{ConditionType, Phase, Run, conditions};

use super::{World, eventually, row};
use test_support::says;

/// A condition of a Run, if it has it.
pub(crate) fn condition_of(run: &Run, kind: ConditionType) -> Option<Condition> {
    let status = run.status.as_ref()?;
    conditions::find(&status.conditions, kind).cloned()
}

impl World {
    /// Waits until a condition of a Workspace has this status and reason; gives back its message.
    pub(crate) async fn workspace_condition(
        &self,
        name: &str,
        kind: ConditionType,
        status: &str,
        reason: &str,
    ) -> String {
        let kind_name = kind.as_str();
        let what = format!("the Workspace {name} has {kind_name}={status} ({reason})");
        eventually(&what, async || {
            let workspace = self.workspaces().get(name).await;
            let workspace = workspace.map_err(|error| error.to_string())?;
            let all = workspace.status.map(|s| s.conditions).unwrap_or_default();
            match conditions::find(&all, kind) {
                Some(c) if c.status == status && c.reason == reason => Ok(c.message.clone()),
                _ => Err(serde_json::to_string_pretty(&all).unwrap()),
            }
        })
        .await
    }

    /// The Workspace `default` can't be used for `reason`, for now or (`stalled`) until a person acts, and
    /// the Run `train` waits for it and repeats why. Nothing was submitted.
    pub(crate) async fn held_by_workspace(&self, reason: &str, stalled: bool) {
        self.workspace_ready("default", "False", reason).await;
        let other = if stalled {
            ConditionType::Stalled
        } else {
            ConditionType::Reconciling
        };
        self.workspace_condition("default", other, "True", reason)
            .await;
        // The Run repeats it a moment after the Workspace shows it; before that it has the last reason.
        let told_by = format!("({reason})");
        let run = self
            .run_until("train", &format!("repeats {reason}"), |run| {
                condition_of(run, ConditionType::Ready).is_some_and(|ready| {
                    ready.reason == "WorkspaceNotReady" && ready.message.contains(&told_by)
                })
            })
            .await;
        assert_eq!(row(&run), "Pending: !Accepted !Finished !Ready Reconciling");
        assert!(self.service.requests("createRun").await.is_empty());
    }

    /// Waits until the Run succeeds without help, and is the only run at the service, made by one POST that
    /// counted.
    pub(crate) async fn heals(&self, name: &str) {
        let run = self.phase(name, Phase::Succeeded).await;
        let status = run.status.as_ref().unwrap();
        assert_eq!(status.last_error, None);
        self.one_run_each().await;
        assert_eq!(self.service.runs().await.len(), 1);
    }

    /// Every Run of this world that has a runID is exactly one run at the service, under its uid; the
    /// service has no other; and all POSTs of one key had the same bytes.
    pub(crate) async fn one_run_each(&self) {
        let objects = self.runs().list(&kube::api::ListParams::default()).await;
        let objects = objects.unwrap().items.into_iter();
        let submitted = objects.filter_map(|object| Some((object.uid()?, object.status?.run_id?)));
        let submitted: BTreeMap<String, String> = submitted.collect();
        let runs = self.service.runs().await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let made = runs.iter();
        let made = made.map(|run| (text(&run["idempotencyKey"]), text(&run["runId"])));
        assert_eq!(made.collect::<BTreeMap<_, _>>(), submitted);
        assert_eq!(
            runs.len(),
            submitted.len(),
            "two runs for one key: {runs:?}"
        );
        let mut bodies = BTreeMap::new();
        for post in self.service.requests("createRun").await {
            let body = text(&post["bodySha256"]);
            let first = bodies.entry(text(&post["idempotencyKey"]));
            assert_eq!(*first.or_insert(body.clone()), body, "another body: {post}");
        }
    }

    /// The number of POSTs for a Run.
    pub(crate) async fn posts_of(&self, run: &Run) -> usize {
        let mut posts = self.service.requests("createRun").await;
        posts.retain(|post| post["idempotencyKey"].as_str() == run.metadata.uid.as_deref());
        posts.len()
    }

    /// The number of requests that the service answered with 401.
    pub(crate) async fn unauthorized(&self) -> u64 {
        let stats = self.service.get("stats").await;
        stats["unauthenticated"].as_u64().unwrap()
    }
}

/// A contract file with which the operator waits seconds where it else waits half a minute.
pub(crate) fn impatient_contract(stem: &str) -> &'static str {
    let changes = [
        ("connectSeconds: 5", "connectSeconds: 2"),
        ("requestSeconds: 30", "requestSeconds: 2"),
        ("streamIdleSeconds: 90", "streamIdleSeconds: 4"),
    ];
    contract_file(stem, &changes).leak()
}

/// Writes a contract file like the built-in one, with these texts replaced, and names it. It lies in the
/// build's own directory for temporary files.
pub(crate) fn contract_file(stem: &str, changes: &[(&str, &str)]) -> String {
    let mut text = include_str!("../../../contract/profile.yaml").to_owned();
    for (from, to) in changes {
        says(&text, &[from]);
        text = text.replace(from, to);
    }
    let path = format!("{}/{stem}.yaml", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&path, text).unwrap();
    path
}
