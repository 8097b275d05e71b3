//! `make demo`: the operator on a real Kubernetes control plane, against the reference service.
//!
//! It does what a user would do, kills the operator on the way, and ends with a summary that is read from the
//! service and the API server. Exit code: 0 when every promise held, 1 when one did not or the demo could not
//! continue, 130 when it was interrupted. Nothing that it started is left running.

mod board;
mod failure;
mod service;
mod stage;
mod story;
mod summary;
mod terminal;

use std::process::ExitCode;

use clap::Args;
use run_operator::util::error_chain;
use tokio::signal::unix::{Signal, SignalKind, signal};

use failure::Failure;
use stage::Stage;
use terminal::{blank, command, heading, note, step};

#[derive(Args)]
pub(crate) struct Options {
    /// Stay up after the summary, until Ctrl-C.
    #[arg(long)]
    keep: bool,
}

/// The end of the demo.
enum Ending {
    Held,
    Broken,
    Interrupted,
}

/// The exit code that shells report for a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

/// Runs it.
pub(crate) fn run(options: &Options) -> ExitCode {
    terminal::start();
    // Clients are made before the first of kube's own, which would choose a TLS provider.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        eprintln!("demo: a TLS provider was installed before main");
    }
    let result = tokio::runtime::Runtime::new()
        .map_err(Failure::Runtime)
        .and_then(|runtime| {
            let result = runtime.block_on(demo(options));
            // A build that Ctrl-C has interrupted is not waited for: it ends with us.
            runtime.shutdown_background();
            result
        });
    if let Err(failure) = &result {
        eprintln!("\ndemo: {}", error_chain(failure));
    }
    // Said when it is so: what was started went with the last value of `demo`.
    blank();
    note("Everything that was started has been stopped.");
    match result {
        Ok(Ending::Held) => ExitCode::SUCCESS,
        Ok(Ending::Broken) | Err(_) => ExitCode::FAILURE,
        Ok(Ending::Interrupted) => ExitCode::from(INTERRUPTED),
    }
}

async fn demo(options: &Options) -> Result<Ending, Failure> {
    let mut interrupt = Interrupt::new()?;
    heading("run-operator: one Run object, at most one run at the service, and none left behind");
    step(
        1,
        "A Kubernetes control plane and a Run Orchestration Service, both empty",
    );
    let mut stage = tokio::select! {
        stage = Stage::set() => stage?,
        () = interrupt.asked() => return Ok(Ending::Interrupted),
    };
    introduce(&stage);
    let told = tokio::select! {
        told = act(&mut stage) => told,
        () = interrupt.asked() => return Ok(Ending::Interrupted),
    };
    let held = told.inspect_err(|_| show_log(&stage))?;
    if !held {
        show_log(&stage);
    }
    if options.keep {
        invite(&stage);
        interrupt.asked().await;
    }
    tokio::select! {
        left = leave(&stage) => left?,
        () = interrupt.asked() => return Ok(Ending::Interrupted),
    }
    Ok(if held { Ending::Held } else { Ending::Broken })
}

/// The story and its summary: whether every promise held.
async fn act(stage: &mut Stage) -> Result<bool, Failure> {
    story::tell(stage).await?;
    summary::check(stage).await
}

fn introduce(stage: &Stage) {
    let programs = stage.control_plane.pids().into_iter();
    let programs: Vec<String> = programs
        .map(|(tool, pid)| format!("{} (pid {pid})", tool.name()))
        .collect();
    if stage.own_control_plane() {
        let release = test_cluster::Release::chosen().map(|release| release.minor());
        note(&format!(
            "Kubernetes {} on 127.0.0.1: {}.",
            release.unwrap_or_default(),
            programs.join(", ")
        ));
    } else {
        note("The cluster of RUN_OPERATOR_TEST_KUBECONFIG, namespace run-operator-demo.");
    }
    note(&format!(
        "The reference service (pid {}) at {}.",
        stage.service.pid(),
        stage.service.base_url()
    ));
}

/// Prints commands for a reader to try while everything stays up.
fn invite(stage: &Stage) {
    heading("Everything stays up until Ctrl-C. In another terminal:");
    command(&format!(
        "export KUBECONFIG={}",
        stage.control_plane.kubeconfig().display()
    ));
    let kubectl = stage.control_plane.kubectl();
    let kubectl = std::path::Path::new(kubectl.get_program());
    if let Some(directory) = kubectl.parent().filter(|path| path.is_absolute()) {
        command(&format!(
            "export PATH=$PATH:{}   # where kubectl is",
            directory.display()
        ));
    }
    let namespace = stage.namespace;
    command(&format!("kubectl -n {namespace} get runs -o wide -w"));
    command(&format!("curl {}/runs", stage.service.control()));
    command(&format!("curl {}", stage.metrics_url()));
    command(&format!("tail -f {}", stage.operator_log_path().display()));
}

/// Takes the demo's namespace out of a cluster that stays.
async fn leave(stage: &Stage) -> Result<(), Failure> {
    if stage.own_control_plane() {
        return Ok(());
    }
    stage
        .quiet_kubectl(&["delete", "namespace", stage.namespace], "")
        .await?;
    note("The namespace run-operator-demo is deleted; the resource definitions stay.");
    Ok(())
}

/// The operator's last words, for who has to find out.
fn show_log(stage: &Stage) {
    let log = stage.operator_log();
    let lines: Vec<&str> = log.lines().collect();
    eprintln!("\nThe operator's log ends with:");
    for line in &lines[lines.len().saturating_sub(30)..] {
        eprintln!("{line}");
    }
}

/// Ctrl-C, SIGTERM, or the end of the terminal.
struct Interrupt {
    signals: [Signal; 3],
}

impl Interrupt {
    fn new() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::Runtime);
        Ok(Self {
            signals: [
                listen(SignalKind::interrupt())?,
                listen(SignalKind::terminate())?,
                listen(SignalKind::hangup())?,
            ],
        })
    }

    /// Ready when one of them has come.
    async fn asked(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
