//! `kubectl runs`: the program under its name as a plugin, against the real API server, as people and pipelines use it.

mod change;
mod complete;
mod events;
mod list;
mod submit;
mod wait;
mod why;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::World;

/// What a command printed, and its exit code.
#[derive(Debug)]
struct Told {
    code: i32,
    out: String,
    err: String,
}

impl Told {
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// The command ended with this code; what it printed on both.
    #[track_caller]
    fn ended(self, code: i32) -> String {
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

/// The program by its name as a plugin, with a kubeconfig, in the world's namespace.
fn plugin(world: &World, kubeconfig: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_run-operator"));
    command
        .arg0("kubectl-runs")
        .args(args)
        .args(["--namespace", &world.namespace])
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Starts a command as the administrator, with `input` on its standard input.
fn start(world: &World, args: &[&str], input: &str) -> Running {
    started(plugin(world, world.control_plane.kubeconfig(), args), input)
}

fn started(mut command: Command, input: &str) -> Running {
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    Running(child)
}

/// A command to its end.
async fn runs(world: &World, args: &[&str]) -> Told {
    start(world, args, "").end().await
}

/// Every POST of a Run is refused until the faults are cleared.
async fn refuse_creates(world: &World) {
    let refusal = json!({"type": "answer", "status": 403, "code": "forbidden"});
    let creates = json!({"operation": "createRun"});
    world.service.lasting_fault(creates, refusal).await;
}

/// A Run whose run stays as it is.
async fn running(world: &World, name: &str) {
    world.simulate(name, json!({"outcome": "never"})).await;
    world.state(name, "running").await;
}

/// A manifest of a Run.
fn manifest(name: &str, spec: &Value) -> String {
    json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
        "metadata": {"name": name}, "spec": spec,
    })
    .to_string()
}
