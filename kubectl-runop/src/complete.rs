//! Completion of commands, flags and names of Runs: for shells by a script, for kubectl by what it asks a plugin.

use std::ffi::{OsStr, OsString};
use std::io;
use std::time::Duration;

use clap::{Command, CommandFactory};
use clap_complete::CompletionCandidate;
use clap_complete::engine::{ArgValueCompleter, complete};
use clap_complete::env::{EnvCompleter, Shells};
use kube::Api;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;

use run_operator::api::Run;

use crate::cli::Cli;
use crate::cli::runs::{ClusterArgs, Completer, KubectlRuns};
use crate::contract_tool::report::block_on;

use super::cluster::Cluster;
use super::exit::{End, RunsError};
use super::print;
use super::program::{PLUGIN, is_plugin};

/// Names the shell that asks for a completion. Its script sets the variable, and nothing else does.
const VARIABLE: &str = "RUN_OPERATOR_COMPLETE";
/// Names that are offered.
const NAMES: u32 = 500;
/// Longest wait for names: a person has pressed a key.
const LONGEST: Duration = Duration::from_secs(3);
/// What cobra calls `ShellCompDirectiveNoFileComp`: kubectl offers no files beside the candidates.
const NO_FILES: &str = ":4";

/// Answers a shell that asks for a completion; false if none does.
pub(crate) fn asked_by_shell() -> io::Result<bool> {
    let Some(shell) = std::env::var(VARIABLE)
        .ok()
        .filter(|shell| !shell.is_empty())
    else {
        return Ok(false);
    };
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&shell) else {
        return Ok(false);
    };
    let words: Vec<OsString> = std::env::args_os()
        .skip_while(|word| word != "--")
        .skip(1)
        .collect();
    let directory = std::env::current_dir().ok();
    let mut answer = Vec::new();
    shell.write_complete(&mut command(), words, directory.as_deref(), &mut answer)?;
    io::Write::write_all(&mut io::stdout(), &answer)?;
    Ok(true)
}

/// Prints the script for a shell, or the program for kubectl.
pub(super) fn script(completer: Completer) -> Result<End, RunsError> {
    let shell: &dyn EnvCompleter = match completer {
        Completer::Bash => &clap_complete::env::Bash,
        Completer::Zsh => &clap_complete::env::Zsh,
        Completer::Fish => &clap_complete::env::Fish,
        Completer::Kubectl => {
            print::out(&format!("#!/bin/sh\nexec {PLUGIN} __complete \"$@\"\n"))?;
            return Ok(End::Succeeded);
        }
    };
    let mut script = Vec::new();
    for program in [PLUGIN, "run-operator"] {
        shell
            .write_registration(VARIABLE, program, program, program, &mut script)
            .map_err(RunsError::Write)?;
    }
    print::out(&String::from_utf8_lossy(&script))?;
    Ok(End::Succeeded)
}

/// Prints what may take the place of the last of the words after `kubectl runs`, for kubectl.
pub(super) fn candidates(words: &[OsString]) -> Result<End, RunsError> {
    let mut all = vec![OsString::from(PLUGIN)];
    all.extend(words.iter().cloned());
    let index = all.len().saturating_sub(1);
    let directory = std::env::current_dir().ok();
    let mut command = with_names(KubectlRuns::command());
    let found = complete(&mut command, all, index, directory.as_deref());
    let mut text = String::new();
    for candidate in found
        .unwrap_or_default()
        .iter()
        .filter(|c| !c.is_hide_set())
    {
        text.push_str(&candidate.get_value().to_string_lossy());
        if let Some(help) = candidate.get_help().map(ToString::to_string) {
            text.push('\t');
            text.push_str(help.lines().next().unwrap_or_default());
        }
        text.push('\n');
    }
    print::out(&format!("{text}{NO_FILES}\n"))?;
    Ok(End::Succeeded)
}

/// The commands of the program, by the name that it was started with.
fn command() -> Command {
    if is_plugin() {
        with_names(KubectlRuns::command())
    } else {
        Cli::command().mut_subcommand("runs", with_names)
    }
}

/// Has the names of Runs offered where a command takes one.
fn with_names(runs: Command) -> Command {
    let subcommands: Vec<String> = runs
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect();
    subcommands.into_iter().fold(runs, |runs, subcommand| {
        runs.mut_subcommand(subcommand, |command| {
            let takes = |id: &str| {
                command
                    .get_positionals()
                    .any(|argument| argument.get_id() == id)
            };
            match ["name", "names"].into_iter().find(|id| takes(id)) {
                Some(id) => command.mut_arg(id, |arg| arg.add(ArgValueCompleter::new(names))),
                None => command,
            }
        })
    })
}

/// The Runs whose names begin so. None if the cluster does not answer in time.
fn names(begun: &OsStr) -> Vec<CompletionCandidate> {
    let begun = begun.to_string_lossy();
    let words: Vec<String> = std::env::args().collect();
    let args = cluster(&words);
    let listed = block_on(async {
        let list = async {
            let cluster = Cluster::connect(&args).await.ok()?;
            let api: Api<PartialObjectMeta<Run>> =
                Api::namespaced(cluster.client.clone(), &cluster.namespace);
            api.list(&ListParams::default().limit(NAMES)).await.ok()
        };
        tokio::time::timeout(LONGEST, list).await
    });
    let Ok(Ok(Some(runs))) = listed else {
        return Vec::new();
    };
    let names = runs.items.into_iter().filter_map(|run| run.metadata.name);
    let names = names.filter(|name| name.starts_with(&*begun));
    names.map(CompletionCandidate::new).collect()
}

/// The flags of the cluster among the words of an unfinished command.
fn cluster(words: &[String]) -> ClusterArgs {
    let value = |flags: &[&str]| {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            for flag in flags {
                if word == flag {
                    return words.next().cloned();
                }
                let rest = word.strip_prefix(flag);
                if let Some(value) = rest.and_then(|rest| rest.strip_prefix('=')) {
                    return Some(value.to_owned());
                }
            }
        }
        None
    };
    ClusterArgs {
        namespace: value(&["--namespace", "-n"]),
        context: value(&["--context"]),
        cluster: value(&["--cluster"]),
        user: value(&["--user"]),
        kubeconfig: value(&["--kubeconfig"]).map(Into::into),
        impersonate: value(&["--as"]),
        impersonate_groups: Vec::new(),
    }
}
