//! Runs that are created, advance and are deleted while the operator is changed and killed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use std::time::Duration;

use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use run_operator::api::{Phase, Run};

use crate::installation::Installation;
use crate::runs::{create, simulated};

/// Interval between the creation of Runs while something is changed: the load, and nothing that a test waits
/// for.
const PACE: Duration = Duration::from_millis(150);

/// The intended end of a Run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It ends without a cancel.
    Succeeds,
    /// It would never end, and is deleted while it runs.
    Deleted,
    /// It would never end, and `spec.cancel` ends it.
    Cancelled,
    /// The service refuses it for good.
    Refused,
    /// It is deleted before it is submitted.
    Unsubmitted,
}

/// A Run that was created.
#[derive(Debug, Clone)]
struct Created {
    name: String,
    /// The idempotency key of its POST.
    key: String,
    fate: Fate,
}

/// All Runs that were created.
#[derive(Debug, Default)]
pub(crate) struct Load(Mutex<Vec<Created>>);

impl Load {
    /// Number of Runs.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn with(&self, fate: Fate) -> Vec<Created> {
        let all = self.0.lock().unwrap().clone();
        all.into_iter().filter(|run| run.fate == fate).collect()
    }

    /// Counts a Run that was created otherwise.
    pub(crate) fn add(&self, run: &Run, fate: Fate) {
        let own = run.spec.idempotency_key.as_deref();
        let namespace = run.namespace().unwrap();
        let key = own.map_or_else(|| run.uid().unwrap(), |key| format!("{namespace}/{key}"));
        let name = run.name_any();
        self.0.lock().unwrap().push(Created { name, key, fate });
    }

    /// Creates so many Runs, one after the other. Every third is to be deleted later.
    pub(crate) async fn create(&self, runs: &Api<Run>, count: usize) {
        for _ in 0..count {
            let number = self.len();
            let (fate, simulate) = if number.is_multiple_of(3) {
                (Fate::Deleted, json!({"outcome": "never"}))
            } else {
                (Fate::Succeeds, json!({"runTimeMs": 1500}))
            };
            let run = create(runs, &format!("run-{number}"), simulated(&simulate)).await;
            self.add(&run, fate);
        }
    }

    /// Creates one Run after the other until `change` is done.
    pub(crate) async fn create_during(&self, runs: &Api<Run>, change: impl Future<Output = ()>) {
        let mut change = std::pin::pin!(change);
        let mut pace = tokio::time::interval(PACE);
        loop {
            tokio::select! {
                () = &mut change => return,
                _ = pace.tick() => self.create(runs, 1).await,
            }
        }
    }

    /// Deletes the first `count` of those that are to be deleted, which all run by now, and doesn't wait.
    pub(crate) async fn delete(&self, installation: &Installation, from: usize, count: usize) {
        for run in self.with(Fate::Deleted).iter().skip(from).take(count) {
            installation.delete_run(&run.name).await;
        }
    }

    /// Waits until these run.
    pub(crate) async fn running(&self, installation: &Installation, from: usize, count: usize) {
        for run in self.with(Fate::Deleted).iter().skip(from).take(count) {
            installation.state(&run.name, "running").await;
        }
    }

    /// Deletes what has to be deleted still, waits for every end, and counts: each Run had exactly one run,
    /// which ended as the Run was meant to. Gives back what was counted, in a sentence.
    ///
    /// # Panics
    /// With the Run that had none, or two, or another end.
    pub(crate) async fn settles(&self, installation: &Installation, deleted: usize) -> String {
        let rest = self.with(Fate::Deleted).len();
        self.running(installation, deleted, rest).await;
        self.delete(installation, deleted, rest).await;
        let all = self.0.lock().unwrap().clone();
        let mut submitted = 0;
        for run in &all {
            submitted += usize::from(run.settles(installation).await);
        }
        let runs = installation.service.runs().await.len();
        assert_eq!(runs, submitted, "runs that were not asked for");
        self.posts(installation).await
    }

    /// Every POST was of one of these Runs, and all of one Run had the same bytes.
    async fn posts(&self, installation: &Installation) -> String {
        let posts = installation.service.requests("createRun").await;
        let mut bodies: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
        for post in &posts {
            let key = post["idempotencyKey"].as_str().unwrap_or_default();
            let of_key = bodies.entry(key.to_owned()).or_default();
            of_key.push(&post["bodySha256"]);
        }
        let all = self.0.lock().unwrap().clone();
        let asked = all.into_iter().filter(|run| run.fate != Fate::Unsubmitted);
        let asked: BTreeSet<String> = asked.map(|run| run.key).collect();
        assert!(bodies.keys().eq(&asked), "{bodies:#?}");
        let mut same = bodies
            .values()
            .map(|of_key| of_key.iter().all(|body| *body == of_key[0]));
        assert!(same.all(|same| same), "{bodies:#?}");
        let most = bodies.values().map(Vec::len).max().unwrap_or_default();
        let (runs, posts) = (self.len(), posts.len());
        format!("{runs} Runs, {posts} POSTs, at most {most} of one Run")
    }
}

impl Created {
    /// Waits for its end, and checks it against the service. Returns whether it has a run.
    async fn settles(&self, installation: &Installation) -> bool {
        let Self { name, key, fate } = self;
        let (phase, state) = match fate {
            Fate::Succeeds => (Some(Phase::Succeeded), Some("succeeded")),
            Fate::Cancelled => (Some(Phase::Cancelled), Some("cancelled")),
            Fate::Refused => (Some(Phase::Failed), None),
            Fate::Deleted => (None, Some("cancelled")),
            Fate::Unsubmitted => (None, None),
        };
        let run_id = if let Some(phase) = phase {
            let run = installation.phase(name, phase).await;
            run.status.unwrap().run_id
        } else {
            installation.gone(name).await;
            None
        };
        let runs = installation.runs_of(key).await;
        let states = runs.iter().map(|run| run["state"].as_str().unwrap());
        assert!(states.eq(state), "{name}: {runs:#?}, not {state:?}");
        if let (Some(_), [run]) = (phase, &runs[..]) {
            assert_eq!(run["runId"].as_str(), run_id.as_deref(), "{name}");
        }
        state.is_some()
    }
}

/// The lines of a JSON log at level warning or above.
pub(crate) fn troubles(log: &str) -> Vec<Value> {
    let lines = log.lines().map(|line| {
        serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("no JSON: {line}"))
    });
    let troubled = |line: &Value| ["WARN", "ERROR"].map(Value::from).contains(&line["level"]);
    lines.filter(troubled).collect()
}
