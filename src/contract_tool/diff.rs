//! `run-operator contract diff`: the changes for Runs when one contract file replaces another.

use std::fmt::Write;

use serde_json::{Value, json};

use run_operator::api::Contract;
use run_operator::api::contract::{Change, Difference};

use crate::cli::{DiffArgs, OutputFormat};
use crate::contract_file::{ContractFileError, Source, load};

use super::{meaning, report::Report};

/// Reason why two files can't be compared.
#[derive(Debug, thiserror::Error)]
pub(super) enum DiffError {
    #[error(transparent)]
    File(#[from] ContractFileError),
    #[error("failed to read two files from standard input; name one of them")]
    StdinTwice,
}

/// Two contract files with their sources.
struct Pair {
    old: (Source, Contract),
    new: (Source, Contract),
}

pub(super) fn run(args: &DiffArgs) -> Result<Report, DiffError> {
    let (old, new) = match args.files.as_slice() {
        [old, new] => (Source::named(Some(old)), Source::named(Some(new))),
        files => (
            Source::Builtin,
            Source::named(files.first().map(AsRef::as_ref)),
        ),
    };
    if old == Source::Stdin && new == Source::Stdin {
        return Err(DiffError::StdinTwice);
    }
    let pair = Pair {
        old: (old.clone(), load(&old)?),
        new: (new.clone(), load(&new)?),
    };
    let changes = pair.old.1.changes_to(&pair.new.1);
    Ok(Report {
        text: match args.output {
            OutputFormat::Text => for_people(&pair, &changes),
            OutputFormat::Json => for_pipelines(&pair, &changes),
        },
        good: changes.is_empty(),
    })
}

fn for_people(pair: &Pair, changes: &[Change]) -> String {
    if changes.is_empty() {
        return "No difference.\n".to_owned();
    }
    let mut text = format!("--- {}\n+++ {}\n", pair.old.0, pair.new.0);
    let mut field = None;
    for change in changes {
        if field.replace(change.field) != Some(change.field) {
            let _ = write!(text, "\n{}\n", change.field.as_str());
        }
        let meaning = meaning::of(change, &pair.old.1, &pair.new.1);
        let _ = write!(text, "  {}\n      {meaning}\n", in_short(&change.what));
    }
    text
}

/// Words are quoted: a file may hold anything.
fn in_short(what: &Difference) -> String {
    match what {
        Difference::Added(word) => format!("+ {word:?}"),
        Difference::Removed(word) => format!("- {word:?}"),
        Difference::Moved { word, to } => format!("{word:?} -> {}", to.as_str()),
        Difference::Pointers { old, new } => format!("{old:?} -> {new:?}"),
        Difference::Number { old, new } => format!("{old} -> {new}"),
    }
}

fn for_pipelines(pair: &Pair, changes: &[Change]) -> String {
    let changes: Vec<Value> = changes
        .iter()
        .map(|change| {
            let mut entry = match &change.what {
                Difference::Added(word) => json!({"change": "added", "value": word}),
                Difference::Removed(word) => json!({"change": "removed", "value": word}),
                Difference::Moved { word, to } => {
                    json!({"change": "moved", "value": word, "to": to.as_str()})
                }
                Difference::Pointers { old, new } => {
                    json!({"change": "changed", "old": old, "new": new})
                }
                Difference::Number { old, new } => {
                    json!({"change": "changed", "old": old, "new": new})
                }
            };
            entry["field"] = json!(change.field.as_str());
            entry["meaning"] = json!(meaning::of(change, &pair.old.1, &pair.new.1));
            entry
        })
        .collect();
    let document = json!({
        "old": pair.old.0.to_string(),
        "new": pair.new.0.to_string(),
        "same": changes.is_empty(),
        "changes": changes,
    });
    format!("{document:#}\n")
}
