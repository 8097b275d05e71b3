//! The reference pages that are written by hand against the code, both ways: reasons, Events, fields of the contract file.

// The binary's flags, as the binary itself reads them.
#[allow(
    dead_code,
    unused_imports,
    reason = "only what clap knows of the flags is asked for here, not what they are parsed into"
)]
#[path = "../../src/cli.rs"]
mod cli;

use std::collections::BTreeSet;

use clap::CommandFactory;
use run_operator::api::{EventReason, Reason};

use crate::files;

/// The rows of the tables between a heading and the next: the cells of each, without the head rows.
fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, section) = text
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("no heading {heading:?}"));
    let lines = section.lines().take_while(|line| !line.starts_with('#'));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for line in lines.filter(|line| line.starts_with('|')) {
        if line.starts_with("|--") {
            rows.pop();
            continue;
        }
        let cells = line.trim_matches('|').split(" | ");
        rows.push(cells.map(|cell| cell.trim().to_owned()).collect());
    }
    rows
}

/// The first word in backticks of a cell.
fn code(cell: &str) -> &str {
    cell.split('`').nth(1).unwrap_or_default()
}

fn same(documented: &BTreeSet<String>, real: &BTreeSet<String>, what: &str, file: &str) {
    let missing: Vec<_> = real.difference(documented).collect();
    let stale: Vec<_> = documented.difference(real).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "{what} that {file} lacks: {missing:?}; that it names and don't exist: {stale:?}"
    );
}

/// Proves: P-flags
#[test]
fn every_flag_of_the_controller_has_its_variable() {
    let command = cli::Cli::command();
    let controller = command.find_subcommand("controller").unwrap();
    let flags = controller.get_arguments().filter_map(clap::Arg::get_long);
    let mut count = 0;
    for flag in flags.filter(|flag| !matches!(*flag, "help" | "version")) {
        let argument = controller
            .get_arguments()
            .find(|arg| arg.get_long() == Some(flag));
        let variable = argument.and_then(clap::Arg::get_env).unwrap_or_default();
        let expected = format!("RUN_OPERATOR_{}", flag.to_uppercase().replace('-', "_"));
        assert_eq!(variable, expected.as_str(), "--{flag}");
        count += 1;
    }
    assert!(count > 20, "{count}");
}

/// Proves: P-conditions
#[test]
fn every_reason_is_documented_and_every_documented_one_exists() {
    let text = files::text("docs/reasons.md");
    let rows: Vec<_> = ["## Runs", "## Workspaces", "## Schedules"]
        .iter()
        .flat_map(|h| table(&text, h))
        .collect();
    let documented: BTreeSet<String> = rows.iter().map(|row| code(&row[0]).to_owned()).collect();
    let real = Reason::ALL.iter().map(|r| r.as_str().to_owned()).collect();
    same(&documented, &real, "reasons", "docs/reasons.md");
    for row in rows {
        assert_eq!(row.len(), 3, "reason, meaning, what to do: {row:?}");
        assert!(
            row.iter().all(|cell| !cell.is_empty()),
            "an empty cell: {row:?}"
        );
    }
}

/// Proves: P-events
#[test]
fn event_reasons_match_their_documentation() {
    let rows = table(&files::text("docs/events.md"), "## Reasons");
    let documented = rows
        .iter()
        .map(|row| format!("{} {}", code(&row[0]), row[1]))
        .collect();
    let real = EventReason::ALL
        .iter()
        .map(|r| format!("{} {}", r.as_str(), r.kind().as_str()))
        .collect();
    same(&documented, &real, "reasons of Events", "docs/events.md");
    for row in rows {
        assert_eq!(row.len(), 3, "reason, type, when: {row:?}");
        assert!(row.iter().all(|cell| !cell.is_empty()), "{row:?}");
    }
}

/// Proves: S-unknown
#[test]
fn every_field_of_the_contract_file_is_documented() {
    let profile = files::text("contract/profile.yaml");
    let mut section = String::new();
    let mut real = BTreeSet::new();
    for line in profile.lines().filter(|l| !l.trim_start().starts_with('#')) {
        let Some((key, rest)) = line
            .split_once(':')
            .filter(|(k, _)| k.trim().chars().all(char::is_alphanumeric))
        else {
            continue;
        };
        if key.starts_with(' ') {
            real.insert(format!("{section}.{}", key.trim()));
        } else if rest.trim().is_empty() {
            key.clone_into(&mut section);
        } else {
            real.insert(key.to_owned());
        }
    }
    let documented = table(&files::text("docs/contract.md"), "## Fields")
        .iter()
        .map(|row| code(&row[0]).to_owned())
        .collect();
    same(&documented, &real, "fields", "docs/contract.md");
}
