//! Completion of commands, flags and names of objects: for shells by clap's own script, for kubectl by what it asks a
//! plugin.

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};
use clap_complete::CompletionCandidate;
use clap_complete::engine::{ArgValueCompleter, complete};
use clap_complete::env::{Bash, EnvCompleter, Fish, Powershell, Zsh};
use kube::api::ListParams;
use kube::core::{NamespaceResourceScope, PartialObjectMeta};
use kube::{Api, Resource};

use run_operator::api::{RunSchedule, RunTemplate};

use crate::args::{Cli, ClusterArgs, Completes};
use crate::cluster::Cluster;
use crate::error::{End, ToolError};
use crate::run::Run;
use crate::{PROGRAM, block_on, print};

/// Names that are offered.
const NAMES: u32 = 500;
/// Longest wait for names: a person has pressed a key.
const LONGEST: Duration = Duration::from_secs(3);
/// What cobra calls `ShellCompDirectiveNoFileComp`: kubectl offers no files beside the candidates.
const NO_FILES: &str = ":4";

/// The variable by which a shell's script asks.
pub(crate) const VARIABLE: &str = "COMPLETE";
/// The program that kubectl asks for the completion of a plugin.
const FOR_KUBECTL: &str = "#!/bin/sh\nexec kubectl-runop __complete \"$@\"\n";

type Offered = fn(&OsStr) -> Vec<CompletionCandidate>;

/// The commands, with the names of objects offered where one is taken.
pub(crate) fn command() -> clap::Command {
    Cli::command().mut_subcommands(|command| match command.get_name() {
        "schedule" => command.mut_subcommands(|command| offering(command, names::<RunSchedule>)),
        "submit" => command.mut_arg("template", |arg| {
            arg.add(ArgValueCompleter::new(names::<RunTemplate>))
        }),
        "why" => offering(command, subjects),
        _ => offering(command, names::<Run>),
    })
}

/// The command with these names offered, if it takes any.
fn offering(command: clap::Command, names: Offered) -> clap::Command {
    let id = command
        .get_positionals()
        .next()
        .map(|arg| arg.get_id().clone());
    match id.filter(|id| id == "name" || id == "names") {
        Some(id) => command.mut_arg(id, |arg| arg.add(ArgValueCompleter::new(names))),
        None => command,
    }
}

/// Runs, and behind `schedule/` the RunSchedules.
fn subjects(begun: &OsStr) -> Vec<CompletionCandidate> {
    const KIND: &str = "schedule/";
    match begun.to_string_lossy().strip_prefix(KIND) {
        Some(begun) => {
            let names = names::<RunSchedule>(begun.as_ref()).into_iter();
            names.map(|name| name.add_prefix(KIND)).collect()
        }
        None => names::<Run>(begun),
    }
}

/// Prints what may take the place of the last of the words after `kubectl runop`, for kubectl.
pub(crate) fn candidates(words: Vec<OsString>) -> Result<End, ToolError> {
    let words: Vec<OsString> = [PROGRAM.into()].into_iter().chain(words).collect();
    let last = words.len() - 1;
    let found = complete(&mut command(), words, last, None).unwrap_or_default();
    let mut text = String::new();
    for candidate in found.iter().filter(|candidate| !candidate.is_hide_set()) {
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

/// Prints the script that has the program asked for what completes its words.
pub(crate) fn script(asks: Completes) -> Result<End, ToolError> {
    let shell: &dyn EnvCompleter = match asks {
        Completes::Kubectl => return print::out(FOR_KUBECTL).map(|()| End::Succeeded),
        Completes::Bash => &Bash,
        Completes::Zsh => &Zsh,
        Completes::Fish => &Fish,
        Completes::Powershell => &Powershell,
    };
    let failed = |error| ToolError::Write("the script".to_owned(), error);
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)
        .map_err(failed)?;
    print::out(&String::from_utf8_lossy(&script))?;
    Ok(End::Succeeded)
}

/// The flags of the cluster among the words of an unfinished command, which follow `__complete` or, from a shell, `--` and
/// the program.
fn cluster() -> ClusterArgs {
    let mut words = std::env::args_os().skip_while(|word| word != "--" && word != "__complete");
    if words.next().is_some_and(|word| word == "--") {
        words.next();
    }
    let words = [PROGRAM.into()].into_iter().chain(words);
    let found = Cli::command()
        .ignore_errors(true)
        .try_get_matches_from(words);
    let args = found.and_then(|found| ClusterArgs::from_arg_matches(&found));
    args.unwrap_or_default()
}

/// The objects whose names begin so. None if the cluster does not answer in time.
fn names<K>(begun: &OsStr) -> Vec<CompletionCandidate>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug,
{
    let args = cluster();
    let list = async {
        let cluster = Cluster::connect(&args).await.ok()?;
        let api: Api<PartialObjectMeta<K>> =
            Api::namespaced(cluster.client.clone(), &cluster.namespace);
        api.list(&ListParams::default().limit(NAMES)).await.ok()
    };
    let listed = block_on(async { tokio::time::timeout(LONGEST, list).await });
    let Ok(Ok(Some(objects))) = listed else {
        return Vec::new();
    };
    let begun = begun.to_string_lossy();
    let objects = objects.items.into_iter();
    let names = objects.filter_map(|object| object.metadata.name);
    let names = names.filter(|name| name.starts_with(&*begun));
    names.map(CompletionCandidate::new).collect()
}
