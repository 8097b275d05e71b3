//! `kubectl runs`, and `run-operator runs`: what people do with Runs, with their own kubeconfig and permissions.

mod change;
mod cluster;
mod complete;
mod events;
mod exit;
mod list;
mod manifest;
mod object;
mod print;
mod program;
mod progress;
mod submit;
mod wait;
mod watch;
mod why;

use std::process::ExitCode;

use crate::cli::runs::{ClusterArgs, RunsArgs, RunsCommand};
use crate::contract_tool::report::block_on;

pub(crate) use complete::asked_by_shell;
pub(crate) use program::is_plugin;

use change::Change;
use cluster::Cluster;
use exit::{End, RunsError};

/// Runs a command.
pub(crate) fn run(args: &RunsArgs) -> ExitCode {
    let result = match &args.command {
        RunsCommand::Completion(completion) => complete::script(completion.shell),
        RunsCommand::Complete(words) => complete::candidates(&words.words),
        command => match block_on(in_cluster(&args.cluster, command)) {
            Ok(result) => result,
            Err(error) => Err(RunsError::Runtime(error)),
        },
    };
    match result {
        Ok(end) => end.into(),
        Err(error) => {
            eprintln!("{error}");
            End::Failed.into()
        }
    }
}

async fn in_cluster(args: &ClusterArgs, command: &RunsCommand) -> Result<End, RunsError> {
    let cluster = Cluster::connect(args).await?;
    match command {
        RunsCommand::Submit(submit) => submit::run(&cluster, submit).await,
        RunsCommand::List(list) => list::run(&cluster, list).await,
        RunsCommand::Why(why) => why::run(&cluster, why).await,
        RunsCommand::Events(events) => events::run(&cluster, events).await,
        RunsCommand::Wait(wait) => wait::run(&cluster, wait).await,
        RunsCommand::Cancel(names) => change::run(&cluster, names, Change::Cancel).await,
        RunsCommand::Retry(names) => change::run(&cluster, names, Change::Retry).await,
        RunsCommand::Suspend(names) => change::run(&cluster, names, Change::Suspend).await,
        RunsCommand::Resume(names) => change::run(&cluster, names, Change::Resume).await,
        RunsCommand::Orphan(names) => change::run(&cluster, names, Change::Orphan).await,
        RunsCommand::Completion(_) | RunsCommand::Complete(_) => Ok(End::Succeeded),
    }
}
