//! `kubectl runop`, the tool on the desk: what people do with Runs, and what they ask when something is wrong, with their
//! own kubeconfig and permissions. A library for the pages that are made from its flags and its remedies.

pub mod args;
mod bundle;
mod change;
mod cluster;
mod complete;
mod contract;
mod details;
mod doctor;
mod error;
mod explain;
mod list;
mod print;
mod queue;
pub mod remedy;
mod rerun;
mod run;
mod schedule;
mod submit;
mod template;
mod wait;
mod why;

#[cfg(test)]
mod fixtures;

use std::process::ExitCode;

use clap::Parser;
use clap_complete::CompleteEnv;

use args::{Cli, Command};
use cluster::Cluster;
use error::{End, ToolError};

/// Field manager of what is written, and the name under which kubectl finds the program.
const PROGRAM: &str = "kubectl-runop";

/// Runs the command of the process's arguments.
pub fn main() -> ExitCode {
    // kube and reqwest can pull in two TLS providers, and then the first connection panics.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        eprintln!("{PROGRAM}: a TLS provider was installed before main");
    }
    CompleteEnv::with_factory(complete::command)
        .var(complete::VARIABLE)
        .bin(PROGRAM)
        .complete();
    if std::env::args_os().len() < 2 {
        return match print::out(args::FIRST) {
            Ok(()) => End::Succeeded.into(),
            Err(_) => End::Failed.into(),
        };
    }
    let cli = Cli::parse();
    set_colours(cli.color);
    let end = match cli {
        // Asks the cluster in a runtime of its own.
        Cli {
            command: Command::Complete { words },
            ..
        } => complete::candidates(words),
        Cli {
            command: Command::Completion(args),
            ..
        } => complete::script(args.asks),
        cli => block_on(run(cli)).unwrap_or_else(|error| Err(ToolError::Runtime(error))),
    };
    match end {
        Ok(end) => end.into(),
        Err(error) => {
            eprintln!("{error}");
            End::Failed.into()
        }
    }
}

async fn run(cli: Cli) -> Result<End, ToolError> {
    if let Command::Contract(command) = &cli.command {
        return contract::run(command, &cli.cluster).await;
    }
    let cluster = Cluster::connect(&cli.cluster).await?;
    match cli.command {
        Command::Submit(args) => submit::run(&cluster, &args).await,
        Command::Rerun(args) => rerun::run(&cluster, &args).await,
        Command::List(args) => list::run(&cluster, &args).await,
        Command::Why(args) => why::run(&cluster, &args).await,
        Command::Open(args) => details::open(&cluster, &args).await,
        Command::Events(args) => wait::events(&cluster, &args).await,
        Command::Wait(args) => wait::run(&cluster, &args).await,
        Command::Cancel(args) => change::run(&cluster, &args, change::cancel).await,
        Command::Retry(args) => change::run(&cluster, &args, change::retry).await,
        Command::Suspend(args) => change::run(&cluster, &args, change::suspend).await,
        Command::Resume(args) => change::run(&cluster, &args, change::resume).await,
        Command::Schedule(command) => schedule::run(&cluster, &command).await,
        Command::Orphan(args) => change::run(&cluster, &args, change::orphan).await,
        Command::Doctor(args) => doctor::run(&cluster, &args).await,
        Command::SupportBundle(args) => bundle::run(&cluster, &args).await,
        Command::Complete { .. } | Command::Completion(_) | Command::Contract(_) => {
            Ok(End::Succeeded)
        }
    }
}

/// `auto` stays what it is: by the terminal, `NO_COLOR` and the like.
fn set_colours(wanted: clap::ColorChoice) {
    match wanted {
        clap::ColorChoice::Auto => {}
        clap::ColorChoice::Always => anstream::ColorChoice::Always.write_global(),
        clap::ColorChoice::Never => anstream::ColorChoice::Never.write_global(),
    }
}

/// Runs a future in a runtime of its own.
fn block_on<T>(future: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(future);
    // A resolver that hangs is not waited for.
    runtime.shutdown_background();
    Ok(result)
}
