//! One failed check of a Workspace is no outage: its Runs write nothing, read nothing and keep their streams.

use std::collections::{BTreeSet, HashSet};

use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Run, conditions};

use crate::support::{
    History, STREAMS_MOVE, Setup, TOKEN, World, condition_of, eventually, eventually_after,
};

const SECOND: &str = "canary-of-one-failure-8d21";

/// Runs at the service, each with an open stream, that are not polled meanwhile.
struct AtRest {
    world: World,
    history: History,
    /// The Workspace's Ready condition.
    ready: Value,
    before: Counts,
}

/// Versions of Runs, and requests for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    writes: usize,
    reads: usize,
    streams: usize,
}

async fn ready_condition(world: &World) -> Value {
    let workspace = world.workspaces().get("default").await.unwrap();
    let all = workspace.status.unwrap_or_default().conditions;
    json!(conditions::find(&all, Type::Ready))
}

async fn counts(world: &World, history: &History) -> Counts {
    Counts {
        writes: history.versions(),
        reads: world.service.requests("getRun").await.len(),
        streams: world.service.requests("streamEvents").await.len(),
    }
}

impl AtRest {
    async fn with(runs: usize) -> Self {
        let world = World::with(Setup {
            operator: vec!["--poll-min", "10m", "--poll-max", "10m"],
            ..Setup::default()
        })
        .await;
        world.workspace_ready("default", "True", "Verified").await;
        let created = (0..runs).map(async |n| {
            let name = format!("run-{n}");
            let never = json!({"runId": name, "outcome": "never"});
            world.simulate(&name, never).await
        });
        futures::future::join_all(created).await;
        eventually("every event is mirrored", async || {
            let all = world.runs().list(&ListParams::default()).await.unwrap();
            let events = |run: &Run| run.status.as_ref().and_then(|s| s.event_count);
            let running = |run: &&Run| {
                let state = run.status.as_ref().and_then(|s| s.state.as_deref());
                state == Some("running") && events(run) >= Some(3)
            };
            let open = world.operator().metric("run_operator_open_streams").await;
            let running = all.items.iter().filter(running).count();
            if running == runs && open == f64::from(u32::try_from(runs).unwrap()) {
                Ok(())
            } else {
                Err(format!("{running} running, {open} streams"))
            }
        })
        .await;
        let history = world.history().await;
        let before = counts(&world, &history).await;
        let ready = ready_condition(&world).await;
        Self {
            world,
            history,
            ready,
            before,
        }
    }

    /// Has the Workspace checked, by a change of its Secret that leaves the token unchanged.
    async fn check(&self) {
        let secret = json!({"token": TOKEN, "note": "another"});
        self.world.secret("run-operator-token", secret).await;
    }

    /// The check that failed, and the good one behind it.
    async fn checked_again(&self, identities: usize) {
        self.world.asked("getWorkspace", identities).await;
        eventually("the last check went well", async || {
            let last = self.world.service.requests("getWorkspace").await.pop();
            let status = last.map(|request| request["status"].clone());
            if status == Some(json!(200)) {
                Ok(())
            } else {
                Err(format!("{status:?}"))
            }
        })
        .await;
    }

    async fn identities(&self) -> usize {
        self.world.service.requests("getWorkspace").await.len()
    }

    /// Nothing came of it.
    async fn nothing_happened(&self) {
        let after = counts(&self.world, &self.history).await;
        assert_eq!(after, self.before);
        assert_eq!(ready_condition(&self.world).await, self.ready);
    }
}

/// Proves: P-one-failure
#[tokio::test]
async fn a_503_to_the_first_probe_after_a_rotation_disturbs_no_run() {
    const RUNS: usize = 200;
    let rest = AtRest::with(RUNS).await;
    let world = &rest.world;
    let made = world.service.post("tokens", json!({"token": SECOND})).await;
    let busy = json!({"type": "answer", "status": 503});
    let versions = world.service.requests("getVersion").await.len();
    world
        .service
        .fault(json!({"operation": "getVersion"}), busy)
        .await;
    world.token(SECOND).await;
    world.asked("getVersion", versions + 2).await;
    eventually_after(
        STREAMS_MOVE,
        "every stream goes on with the new token",
        async || {
            let streams = world.service.requests("streamEvents").await;
            let new = streams
                .iter()
                .filter(|stream| stream["token"] == made["fingerprint"]);
            let runs: HashSet<_> = new.map(|stream| stream["runId"].to_string()).collect();
            if runs.len() == RUNS {
                Ok(())
            } else {
                Err(runs.len())
            }
        },
    )
    .await;
    let after = counts(world, &rest.history).await;
    let writes = after.writes - rest.before.writes;
    assert!(writes <= 20, "{writes} writes of Runs");
    assert_eq!(after.reads, rest.before.reads);
    assert_eq!(after.streams, rest.before.streams + RUNS, "each once more");
    assert_eq!(ready_condition(world).await, rest.ready);
    assert_eq!(world.unauthorized().await, 0);
}

/// Proves: P-one-failure
#[tokio::test]
async fn one_bad_answer_of_a_proxy_to_a_check_changes_nothing() {
    let rest = AtRest::with(20).await;
    for status in [502, 404] {
        let identities = rest.identities().await;
        let html = json!({
            "type": "answer", "status": status, "contentType": "text/html", "body": "<html></html>",
        });
        let version = json!({"operation": "getVersion"});
        rest.world.service.fault(version, html).await;
        let note = json!({"token": TOKEN, "note": status.to_string()});
        rest.world.secret("run-operator-token", note).await;
        rest.checked_again(identities + 1).await;
    }
    rest.nothing_happened().await;
}

/// Proves: P-one-failure
#[tokio::test]
async fn one_check_without_an_answer_changes_nothing() {
    let rest = AtRest::with(20).await;
    let identities = rest.identities().await;
    let hang = json!({"type": "hang", "forMs": 60_000});
    let version = json!({"operation": "getVersion"});
    rest.world.service.fault(version, hang).await;
    rest.check().await;
    rest.checked_again(identities + 1).await;
    rest.nothing_happened().await;
}

/// Proves: P-one-failure
#[tokio::test]
async fn one_401_that_the_next_check_does_not_repeat_changes_nothing() {
    let rest = AtRest::with(20).await;
    let identities = rest.identities().await;
    let rejected = json!({"type": "answer", "status": 401, "code": "unauthenticated"});
    let identity = json!({"operation": "getWorkspace"});
    rest.world.service.fault(identity, rejected).await;
    rest.check().await;
    rest.checked_again(identities + 2).await;
    rest.nothing_happened().await;
}

/// Proves: P-one-failure
#[tokio::test]
async fn one_401_to_a_run_is_asked_again_and_costs_the_others_nothing() {
    let rest = AtRest::with(20).await;
    let world = &rest.world;
    let identities = rest.identities().await;
    let rejected = json!({"type": "answer", "status": 401, "code": "unauthenticated"});
    let read = json!({"operation": "getRun"});
    world.service.fault(read, rejected).await;
    let state = json!({"state": "processing"});
    world.service.post("runs/run-7/state", state).await;
    world.state("run-7", "processing").await;
    rest.checked_again(identities + 1).await;
    let after = counts(world, &rest.history).await;
    assert_eq!(after.streams, rest.before.streams, "a stream was reopened");
    assert!(after.reads <= rest.before.reads + 3, "{after:?}");
    for n in (0..20).filter(|n| *n != 7) {
        let name = format!("run-{n}");
        assert_eq!(rest.history.of(&name).len(), 1, "{name} was written");
    }
    assert_eq!(ready_condition(world).await, rest.ready);
}

fn shows_it(run: &Run) -> bool {
    condition_of(run, Type::Synced).is_some_and(|c| c.reason == "WorkspaceNotReady")
}

/// Proves: P-one-failure, P-stream-session
#[tokio::test]
async fn checks_that_fail_again_and_again_close_no_stream() {
    const RUNS: usize = 20;
    let rest = AtRest::with(RUNS).await;
    let busy = json!({"type": "answer", "status": 503});
    let version = json!({"operation": "getVersion"});
    rest.world.service.lasting_fault(version, busy).await;
    rest.check().await;
    for n in 0..RUNS {
        let name = format!("run-{n}");
        rest.history.until(&name, "says so", shows_it).await;
    }
    let stats = rest.world.service.get("stats").await;
    assert_eq!(stats["openStreams"], RUNS);
    let after = counts(&rest.world, &rest.history).await;
    assert_eq!(after.streams, rest.before.streams, "a stream was reopened");
}

/// Proves: P-one-failure
#[tokio::test]
async fn an_outage_is_written_once_per_run_and_spread_over_time() {
    const RUNS: usize = 40;
    let mut rest = AtRest::with(RUNS).await;
    rest.world.service.kill();
    let names: Vec<String> = (0..RUNS).map(|n| format!("run-{n}")).collect();
    for name in &names {
        rest.history.until(name, "says so", shows_it).await;
    }
    let workspace = ready_condition(&rest.world).await;
    assert_eq!(workspace["reason"], "ServiceUnavailable");
    let mut times = BTreeSet::new();
    for name in &names {
        let versions = rest.history.of(name);
        assert_eq!(versions.len(), 2, "{name} was written more than once");
        let synced = condition_of(&versions[1], Type::Synced).unwrap();
        times.insert(synced.last_transition_time.0);
        assert!(!versions[1].finalizers().is_empty());
    }
    assert!(times.len() > 3, "all at once: {times:?}");
}
