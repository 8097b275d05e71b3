//! The operator of one life: started again when it has been killed.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::trial::{PATIENCE, POLL, Told, text};
use test_cluster::{Output, Process};

/// Exit code of a shell for SIGKILL.
const KILLED: i32 = 137;
/// By SIGTERM, which the operator registers for soon after its start.
const TERMINATED: i32 = 143;
/// Flags for an election that ends soon after a kill, and for renewals that tolerate the longest delay.
const ELECTION: [&str; 4] = [
    "--leader-elect",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=7s",
    "--leader-elect-retry-period=1s",
];

/// Command of the operator, for repeated starts.
#[derive(Clone)]
pub(super) struct Recipe {
    /// True if it takes part in an election.
    pub(super) elected: bool,
    pub(super) kubeconfig: PathBuf,
    pub(super) namespace: String,
    pub(super) base_url: String,
    pub(super) log: PathBuf,
    pub(super) trace: PathBuf,
}

impl Recipe {
    fn command(&self, fault: Option<&str>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_run-operator"));
        command
            .args(["controller", "--listen", "127.0.0.1:0"])
            .args(["--poll-min", "500ms", "--poll-max", "3s"])
            .args(["--log-filter", "info,run_operator=debug"])
            .args(["--cluster-workspaces=false", "--namespace", &self.namespace])
            .args(["--base-url", &self.base_url])
            .env("KUBECONFIG", &self.kubeconfig)
            .env("RUN_OPERATOR_POINTS", &self.trace);
        if self.elected {
            command.args(ELECTION);
            command.args(["--leader-elect-namespace", &self.namespace]);
        }
        if let Some(fault) = fault {
            command.env("RUN_OPERATOR_FAULT", fault);
        }
        command
    }
}

/// Starts the operator, and again when it has been killed.
pub(super) struct Keeper {
    stop: CancellationToken,
    again: Arc<AtomicBool>,
    task: JoinHandle<Told>,
}

impl Keeper {
    /// Starts the first, with the fault.
    pub(super) fn begin(recipe: Recipe, fault: Option<String>) -> Self {
        let stop = CancellationToken::new();
        let again = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(keep(recipe, fault, stop.clone(), Arc::clone(&again)));
        Self { stop, again, task }
    }

    /// True if it was restarted.
    pub(super) fn again(&self) -> bool {
        self.again.load(Ordering::Relaxed)
    }

    /// Ends it in order.
    pub(super) async fn stop(self) -> Told {
        self.stop.cancel();
        self.task.await.map_err(text)?
    }
}

/// A fault kills once; any other end is a defect.
async fn keep(
    recipe: Recipe,
    mut fault: Option<String>,
    stop: CancellationToken,
    again: Arc<AtomicBool>,
) -> Told {
    let mut restarted = false;
    loop {
        let kills = fault.as_ref().is_some_and(|fault| fault.contains("kill"));
        let command = recipe.command(fault.take().as_deref());
        let log = Output::File(recipe.log.clone());
        let mut process = Process::spawn(&command, log).map_err(text)?;
        again.store(!kills, Ordering::Relaxed);
        let code = loop {
            if let Some(code) = process.exit_code() {
                break code;
            }
            if stop.is_cancelled() {
                process.terminate();
                return match process.wait_exit(PATIENCE).await {
                    Some(0) => Ok(()),
                    // What it does last is a point too.
                    Some(KILLED) if kills => Ok(()),
                    // The fault came last: its successor was starting, and had not registered for the signal.
                    Some(TERMINATED) if restarted => Ok(()),
                    other => Err(format!("the operator's end was {other:?}, and not 0")),
                };
            }
            tokio::time::sleep(POLL).await;
        };
        if code != KILLED || !kills {
            return Err(format!("the operator ended unasked with code {code}"));
        }
        restarted = true;
    }
}
