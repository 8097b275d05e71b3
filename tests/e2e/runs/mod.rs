//! `kubectl runop`, against the real API server, as people and pipelines use it.

mod change;
mod complete;
mod contract;
mod events;
mod list;
mod refused_writes;
mod schedules;
mod submit;
mod wait;
mod why;

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use test_support::programs;

use crate::support::{Setup, World};

/// What a command printed, and its exit code.
#[derive(Debug)]
pub(crate) struct Told {
    code: i32,
    out: String,
    err: String,
}

impl Told {
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// The command ended with this code; what it printed on both.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        format!("{}{}", self.out, self.err)
    }
}

/// A command that runs.
struct Running(Child);

impl Running {
    async fn end(self) -> Told {
        let output = tokio::task::spawn_blocking(|| self.0.wait_with_output());
        let output = output.await.unwrap().unwrap();
        Told {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Starts a command, by its words: with a kubeconfig, in the world's namespace, with `input` on its standard input.
fn started(world: &World, kubeconfig: &Path, words: &str, input: &str) -> Running {
    let mut child = Command::new(programs::kubectl_runop())
        .args(words.split_whitespace())
        .args(["--namespace", &world.namespace])
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    Running(child)
}

/// The same as the administrator.
fn start(world: &World, words: &str, input: &str) -> Running {
    started(world, world.control_plane.kubeconfig(), words, input)
}

/// A command to its end.
pub(crate) async fn runs(world: &World, words: &str) -> Told {
    start(world, words, "").end().await
}

/// Each command ends with this code and says this.
async fn each_says(world: &World, commands: &[(&str, i32, &str)]) {
    for (words, code, part) in commands {
        let said = runs(world, words).await.ended(*code);
        assert!(said.contains(part), "{words}: {part:?} is not in {said}");
    }
}

/// A world without an operator: what commands read, the test has written.
async fn desk() -> World {
    World::unattended(Setup::default()).await
}

const HELD: &str = "Pending: !Accepted Suspended !Finished !Ready";
const REFUSED: &str = "Pending: !Accepted !Finished !Ready Stalled";
const ACTIVE: &str = "Active: Accepted !Finished !Ready Reconciling";
pub(crate) const SUCCEEDED: &str = "Succeeded: Accepted Finished Complete Ready";
const FAILED: &str = "Failed: Accepted Finished Failed !Ready Stalled";
const CANCELLED: &str = "Cancelled: Accepted Finished Cancelled Ready";

/// A Run with this row of the conditions, as an operator left it.
async fn left(world: &World, name: &str, row: &str, reason: &str) {
    world.simulate(name, json!({})).await;
    shows(world, name, row, reason).await;
}

/// Writes the status of a Run as an operator does: a row of the conditions (`!` is False), all with this reason.
pub(crate) async fn shows(world: &World, name: &str, row: &str, reason: &str) {
    let generation = world.run(name).await.metadata.generation;
    let (phase, kinds) = row.split_once(": ").unwrap();
    let condition = |word: &str| {
        let kind = word.trim_start_matches('!');
        let status = if kind == word { "True" } else { "False" };
        json!({
            "type": kind, "status": status, "reason": reason, "message": format!("It is {reason}."),
            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let conditions: Vec<Value> = kinds.split(' ').map(condition).collect();
    let mut status =
        json!({"phase": phase, "observedGeneration": generation, "conditions": conditions});
    if row.contains(" Accepted") {
        status["runID"] = format!("run-of-{name}").into();
        let state = if phase == "Active" { "running" } else { phase };
        status["state"] = state.to_lowercase().into();
    }
    world.patch_status(name, status).await;
}

/// A manifest of a Run.
fn manifest(name: &str, spec: &Value) -> String {
    json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
        "metadata": {"name": name}, "spec": spec,
    })
    .to_string()
}
