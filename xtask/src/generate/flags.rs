//! `docs/flags.md`, from the program's own command line.

// The program's flags, as the program itself reads them.
#[allow(
    dead_code,
    unused_imports,
    reason = "only what clap knows of the flags is asked for here, not what they are parsed into"
)]
#[path = "../../../src/cli/mod.rs"]
mod cli;

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};

const HEAD: &str = "\
<!-- Written by `make generate` from src/cli. -->
# Flags

Every command of the program, with its flags, their variables and defaults. The program shows the same with --help. A wrong flag, an
unreadable file or a bad URL ends the program with one line and exit code 2. So does an empty value: it is most often a
variable that is not set. Repeatable flags take a comma-separated list in the environment. A flag takes precedence over
its variable.
";

/// The page.
pub(super) fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut program = cli::Cli::command();
    program.build();
    for command in program.get_subcommands().filter(|c| c.get_name() != "help") {
        section(&mut page, command, "run-operator");
    }
    page
}

fn section(page: &mut String, command: &Command, above: &str) {
    let name = format!("{above} {}", command.get_name());
    if command.is_hide_set() {
        return;
    }
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let _ = write!(page, "\n## {name}\n{}\n", about.trim_end());
    let inherited = |arg: &&Arg| arg.is_global_set() && above != "run-operator";
    let own = command.get_arguments().filter(|arg| {
        !matches!(arg.get_id().as_str(), "help" | "version")
            && !arg.is_hide_set()
            && !inherited(arg)
    });
    let rows: Vec<String> = own.map(row).collect();
    if !rows.is_empty() {
        page.push_str("\n| argument | environment | default | meaning |\n|---|---|---|---|\n");
        page.extend(rows);
    }
    for below in command.get_subcommands().filter(|c| c.get_name() != "help") {
        section(page, below, &name);
    }
}

fn row(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default();
    let value = values.first().map(|name| format!(" {name}"));
    let value = value
        .filter(|_| arg.get_action().takes_values())
        .unwrap_or_default();
    let name = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}{value}"),
        (None, Some(long)) => format!("--{long}{value}"),
        _ => value.trim().to_owned(),
    };
    let code = |text: String| {
        if text.is_empty() {
            text
        } else {
            format!("`{text}`")
        }
    };
    let variable = arg
        .get_env()
        .map(|name| name.to_string_lossy().into_owned());
    let defaults = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy());
    let default = defaults.collect::<Vec<_>>().join(",");
    // A switch is off unless it is given; that is no default to be shown.
    let default = if arg.get_action().takes_values() {
        default
    } else {
        String::new()
    };
    let help = arg.get_long_help().or(arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let words = help
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|");
    // clap drops the period of a short help.
    let words = format!("{}.", words.trim_end_matches('.'));
    let possible: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set() && arg.get_action().takes_values())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let possible = match possible.as_slice() {
        [] => String::new(),
        _ => format!(" One of {}.", possible.join(", ")),
    };
    format!(
        "| {} | {} | {} | {words}{possible} |\n",
        code(name),
        code(variable.unwrap_or_default()),
        code(default)
    )
}
