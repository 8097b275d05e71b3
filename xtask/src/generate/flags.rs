//! `docs/flags.md`, from the programs' own command lines.

// The program's flags, as the program itself reads them.
#[allow(
    dead_code,
    unused_imports,
    reason = "only what clap knows of the flags is asked for here, not what they are parsed into"
)]
#[path = "../../../src/cli.rs"]
mod cli;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::{Generated, cell};
use crate::common::Outcome;

/// The tool, whose flags for the cluster are those of each of its commands.
const TOOL: &str = "kubectl runop";

/// A row of a table: an argument, its variable, its default and its meaning.
type Row = [String; 4];

/// The page, and where each row of it stands: at the first command that takes the argument.
#[derive(Default)]
struct Page {
    text: String,
    rows: BTreeMap<Row, String>,
}

/// The page.
pub(super) fn page() -> Outcome<Vec<Generated>> {
    let mut page = Page::default();
    let mut operator = cli::Cli::command();
    operator.build();
    for command in operator.get_subcommands() {
        let name = format!("run-operator {}", command.get_name());
        page.section(command, &name);
    }
    let mut tool = kubectl_runop::args::Cli::command();
    tool.build();
    page.section(&tool, TOOL);
    super::page("docs/flags.md", &page.text)
}

impl Page {
    fn section(&mut self, command: &Command, name: &str) {
        if command.is_hide_set() || command.get_name() == "help" {
            return;
        }
        let about = command.get_long_about().or(command.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        let places: String = command.get_positionals().map(place).collect();
        let _ = write!(self.text, "\n## {name}{places}\n{}\n", about.trim_end());
        let shown = |arg: &&Arg| {
            let inherited = arg.is_global_set() && name != TOOL;
            let is_told = arg.is_positional() && arg.get_possible_values().is_empty();
            let is_of_clap = matches!(arg.get_id().as_str(), "help" | "version");
            !is_of_clap && !arg.is_hide_set() && !inherited && !is_told
        };
        let mut new = Vec::new();
        let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in command.get_arguments().filter(shown).map(row) {
            match self.rows.get(&row) {
                Some(place) => told
                    .entry(place.clone())
                    .or_default()
                    .extend(row.into_iter().next()),
                None => new.push(row),
            }
        }
        self.table(&new);
        for (place, arguments) in told {
            let arguments = arguments.join(", ");
            let _ = write!(self.text, "\n{arguments}: as for `{place}`.\n");
        }
        self.rows
            .extend(new.into_iter().map(|row| (row, name.to_owned())));
        for below in command.get_subcommands() {
            self.section(below, &format!("{name} {}", below.get_name()));
        }
    }

    /// The rows without the columns that are empty in all of them.
    fn table(&mut self, rows: &[Row]) {
        let heads = ["argument", "environment", "default", "meaning"];
        let used = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
        let columns: Vec<usize> = (0..heads.len()).filter(used).collect();
        let line = |cells: &Row| -> String {
            let cells: Vec<&str> = columns.iter().map(|c| cells[*c].as_str()).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        if !rows.is_empty() {
            let rule = "---|".repeat(columns.len());
            let _ = write!(self.text, "\n{}|{rule}\n", line(&heads.map(str::to_owned)));
            self.text.extend(rows.iter().map(line));
        }
    }
}

/// An argument without a flag, in the heading.
fn place(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default().join(" ");
    let several = matches!(arg.get_action(), ArgAction::Append);
    format!(" {names}{}", if several { "…" } else { "" })
}

fn row(arg: &Arg) -> Row {
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
    // clap drops the period of a short help.
    let help = format!("{}.{possible}", help.trim_end_matches('.'));
    [
        code(&cell(&name)),
        code(&variable),
        code(&defaults.join(",")),
        help,
    ]
}
