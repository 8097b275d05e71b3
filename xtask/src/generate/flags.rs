//! `docs/flags.md`, from the programs' own command lines.

// The program's flags, as the program itself reads them.
#[allow(
    dead_code,
    unused_imports,
    reason = "only what clap knows of the flags is asked for here, not what they are parsed into"
)]
#[path = "../../../src/cli.rs"]
mod cli;

use std::ffi::OsStr;
use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};

use super::{Generated, cell};
use crate::common::Outcome;

/// The tool, whose flags for the cluster are those of each of its commands.
const TOOL: &str = "kubectl runop";

/// The page.
pub(super) fn page() -> Outcome<Vec<Generated>> {
    let mut sections = String::new();
    let mut operator = cli::Cli::command();
    operator.build();
    for command in operator.get_subcommands() {
        let name = format!("run-operator {}", command.get_name());
        section(&mut sections, command, &name);
    }
    let mut tool = kubectl_runop::args::Cli::command();
    tool.build();
    section(&mut sections, &tool, TOOL);
    super::page("docs/flags.md", &sections)
}

fn section(page: &mut String, command: &Command, name: &str) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let _ = write!(page, "\n## {name}\n{}\n", about.trim_end());
    let shown = |arg: &&Arg| {
        let inherited = arg.is_global_set() && name != TOOL;
        !matches!(arg.get_id().as_str(), "help" | "version") && !arg.is_hide_set() && !inherited
    };
    let rows: Vec<String> = command.get_arguments().filter(shown).map(row).collect();
    if !rows.is_empty() {
        page.push_str("\n| argument | environment | default | meaning |\n|---|---|---|---|\n");
        page.extend(rows);
    }
    for below in command.get_subcommands() {
        section(page, below, &format!("{name} {}", below.get_name()));
    }
}

fn row(arg: &Arg) -> String {
    let takes = arg.get_action().takes_values();
    let values = arg.get_value_names().unwrap_or_default();
    let value = values.first().filter(|_| takes);
    let value = value.map(|name| format!(" {name}")).unwrap_or_default();
    let name = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}{value}"),
        (None, Some(long)) => format!("--{long}{value}"),
        _ => value.trim().to_owned(),
    };
    let code = |text: &str| match text {
        "" => String::new(),
        text => format!("`{text}`"),
    };
    let text = |text: &OsStr| text.to_string_lossy().into_owned();
    let variable = arg.get_env().map(text).unwrap_or_default();
    // A switch is off unless it is given; that is no default to be shown.
    let defaults = arg.get_default_values().iter().filter(|_| takes);
    let defaults: Vec<String> = defaults.map(|value| text(value)).collect();
    let help = arg.get_long_help().or(arg.get_help());
    let help = cell(&help.map(ToString::to_string).unwrap_or_default());
    let possible = arg.get_possible_values().into_iter();
    let possible = possible.filter(|value| !value.is_hide_set() && takes);
    let possible: Vec<String> = possible.map(|value| code(value.get_name())).collect();
    let possible = match possible.as_slice() {
        [] => String::new(),
        _ => format!(" One of {}.", possible.join(", ")),
    };
    format!(
        "| {} | {} | {} | {}.{possible} |\n",
        code(&cell(&name)),
        code(&variable),
        code(&defaults.join(",")),
        // clap drops the period of a short help.
        help.trim_end_matches('.'),
    )
}
