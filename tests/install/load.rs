//! Runs that are created, advance and are deleted while the operator is changed and killed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use std::time::Duration;

use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use run_operator::api::{Phase, Run};

use crate::installation::Installation;
use crate::runs::create_run;

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
}

/// All Runs that were created: name, uid, fate.
#[derive(Debug, Default)]
pub(crate) struct Load(Mutex<Vec<(String, String, Fate)>>);

impl Load {
    /// Number of Runs.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn with(&self, fate: Fate) -> Vec<(String, String)> {
        let all = self.0.lock().unwrap().clone();
        let these = all.into_iter().filter(|(_, _, of_this)| *of_this == fate);
        these.map(|(name, uid, _)| (name, uid)).collect()
    }

    /// Creates so many Runs, one after the other. Every third is to be deleted later.
    pub(crate) async fn create(&self, runs: &Api<Run>, count: usize) {
        for _ in 0..count {
            let number = self.len();
            let name = format!("run-{number}");
            let (fate, simulate) = if number.is_multiple_of(3) {
                (Fate::Deleted, json!({"outcome": "never"}))
            } else {
                (Fate::Succeeds, json!({"runTimeMs": 1500}))
            };
            let run = create_run(runs, &name, simulate).await;
            let uid = run.uid().unwrap();
            self.0.lock().unwrap().push((name, uid, fate));
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
        for (name, _) in self.with(Fate::Deleted).iter().skip(from).take(count) {
            installation.delete_run(name).await;
        }
    }

    /// Waits until these run.
    pub(crate) async fn running(&self, installation: &Installation, from: usize, count: usize) {
        for (name, _) in self.with(Fate::Deleted).iter().skip(from).take(count) {
            installation.state(name, "running").await;
        }
    }

    /// Deletes what has to be deleted still, waits for every end, and counts: each Run had exactly one run,
    /// which ended as the Run was meant to. Gives back what was counted, in a sentence.
    ///
    /// # Panics
    /// With the Run that had none, or two, or another end.
    pub(crate) async fn settles(&self, installation: &Installation, deleted: usize) -> String {
        let (kept, rest) = (self.with(Fate::Succeeds), self.with(Fate::Deleted));
        self.running(installation, deleted, rest.len()).await;
        self.delete(installation, deleted, rest.len()).await;
        for (name, uid) in &kept {
            let run = installation.phase(name, Phase::Succeeded).await;
            let runs = installation.runs_of(uid).await;
            assert_eq!(runs.len(), 1, "{name}: {runs:#?}");
            assert_eq!(
                runs[0]["runId"].as_str(),
                run.status.unwrap().run_id.as_deref()
            );
            assert_eq!(runs[0]["state"], "succeeded");
        }
        for (name, uid) in &rest {
            installation.gone(name).await;
            let runs = installation.runs_of(uid).await;
            assert_eq!(runs.len(), 1, "{name}: {runs:#?}");
            assert_eq!(runs[0]["state"], "cancelled", "{name}: {runs:#?}");
        }
        assert_eq!(
            installation.service.runs().await.len(),
            self.len(),
            "runs that nobody asked for"
        );
        self.posts(installation).await
    }

    /// Every POST was of one of these Runs, and all of one Run had the same bytes.
    async fn posts(&self, installation: &Installation) -> String {
        let posts = installation.service.requests("createRun").await;
        let mut bodies: BTreeMap<&str, (usize, BTreeSet<&str>)> = BTreeMap::new();
        for post in &posts {
            let text = |field: &str| post[field].as_str().unwrap_or_default();
            let (count, digests) = bodies.entry(text("idempotencyKey")).or_default();
            *count += 1;
            digests.insert(text("bodySha256"));
        }
        let asked: BTreeSet<String> = self
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|(_, uid, _)| uid.clone())
            .collect();
        assert!(
            bodies.keys().copied().eq(asked.iter().map(String::as_str)),
            "{bodies:#?}"
        );
        assert!(
            bodies.values().all(|(_, digests)| digests.len() == 1),
            "{bodies:#?}"
        );
        let most = bodies
            .values()
            .map(|(count, _)| *count)
            .max()
            .unwrap_or_default();
        format!(
            "{} Runs, {} POSTs, at most {most} of one Run",
            self.len(),
            posts.len()
        )
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
