//! `make demo`: the operator on a real Kubernetes control plane, against the reference service.
//!
//! It does what a user would do, kills the operator on the way, and ends with a summary that is read from the
//! service and the API server. Exit code: 0 when every promise held, 1 when one did not or the demo could not
//! continue, 130 when it was interrupted. Nothing that it started is left running.

mod board;
mod stage;
mod story;
mod summary;
mod terminal;

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use run_operator::util::error_chain;

use crate::common::{Interrupt, Outcome, block_on};
use stage::Stage;
use terminal::{blank, command, heading, note};

#[derive(Args)]
pub(crate) struct Options {
    /// Stay up after the summary, until Ctrl-C.
    #[arg(long)]
    keep: bool,
}

/// The exit code that shells report for a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

/// Runs it.
pub(crate) fn run(options: &Options) -> ExitCode {
    terminal::start();
    let result = block_on(demo(options));
    if let Err(error) = &result {
        eprintln!("\ndemo: {}", error_chain(error));
    }
    // Said when it is so: what was started went with the last value of `demo`.
    blank();
    note("Everything that was started has been stopped.");
    result.unwrap_or(ExitCode::FAILURE)
}

async fn demo(options: &Options) -> Outcome<ExitCode> {
    let mut interrupt = Interrupt::new()?;
    heading("run-operator: one Run object, at most one run at the service, and none left behind");
    heading("1. A Kubernetes control plane and a Run Orchestration Service, both empty");
    let mut stage = tokio::select! {
        stage = Stage::set() => stage?,
        () = interrupt.asked() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    introduce(&stage);
    let told = tokio::select! {
        told = act(&mut stage) => told,
        () = interrupt.asked() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let held = told.inspect_err(|_| show_log(&stage))?;
    if !held {
        show_log(&stage);
    }
    if options.keep {
        invite(&stage);
        interrupt.asked().await;
    }
    Ok(if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The story and its summary: whether every promise held.
async fn act(stage: &mut Stage) -> Outcome<bool> {
    story::tell(stage).await?;
    summary::check(stage).await
}

fn introduce(stage: &Stage) {
    let programs = stage.control_plane.pids().into_iter();
    let programs = programs.map(|(tool, pid)| format!("{} (pid {pid})", tool.name()));
    let programs = programs.collect::<Vec<_>>().join(", ");
    let release = test_cluster::Release::chosen().map(|release| release.minor());
    let release = release.unwrap_or_default();
    note(&format!("Kubernetes {release} on 127.0.0.1: {programs}."));
    let (pid, url) = (stage.service.pid(), stage.service.base_url());
    note(&format!("The reference service (pid {pid}) at {url}."));
}

/// Prints commands for a reader to try while everything stays up.
fn invite(stage: &Stage) {
    heading("Everything stays up until Ctrl-C. In another terminal:");
    let kubeconfig = stage.control_plane.kubeconfig().display();
    command(&format!("export KUBECONFIG={kubeconfig}"));
    let kubectl = stage.control_plane.kubectl();
    let folder = Path::new(kubectl.get_program()).parent();
    if let Some(folder) = folder.filter(|path| path.is_absolute()) {
        let folder = folder.display();
        command(&format!("export PATH=$PATH:{folder}   # where kubectl is"));
    }
    command("kubectl get runs -o wide -w");
    command(&format!("curl {}/runs", stage.service.control()));
    command(&format!("curl {}", stage.metrics_url()));
    command(&format!("tail -f {}", stage.operator_log_path().display()));
}

/// The operator's last words, for who has to find out.
fn show_log(stage: &Stage) {
    let log = stage.operator_log();
    let lines: Vec<&str> = log.lines().collect();
    let last = &lines[lines.len().saturating_sub(30)..];
    eprintln!("\nThe operator's log ends with:\n{}", last.join("\n"));
}
