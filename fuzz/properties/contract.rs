//! Two contract files, `%%%` on a line between them; one alone is compared with the one that is compiled in.

use std::error::Error;

use crate::api::Contract;
use crate::api::contract::{Change, Difference, StateClass};

pub fn contract(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let (old, new) = match text.split_once("\n%%%\n") {
        Some((old, new)) => (parse(old), parse(new)),
        None => (Contract::builtin().ok(), parse(text)),
    };
    let (Some(old), Some(new)) = (old, new) else {
        return;
    };
    for file in [&old, &new] {
        assert_eq!(file.changes_to(file), []);
        is_sane(file);
    }
    let (there, back) = (old.changes_to(&new), new.changes_to(&old));
    assert_eq!(mirrored(&there), mirrored_back(&back));
    if there.is_empty() {
        reads_alike(&old, &new);
    }
}

/// Why a file is refused is said on one line, in bounds.
fn parse(yaml: &str) -> Option<Contract> {
    let error = match Contract::parse(yaml) {
        Ok(contract) => return Some(contract),
        Err(error) => error,
    };
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        told = format!("{told}: {error}");
        cause = error.source();
    }
    assert!(!told.chars().any(char::is_control), "{told:?}");
    None
}

/// What the checks of a contract file are for.
fn is_sane(file: &Contract) {
    for word in ["", " "] {
        assert_eq!(file.state(word), StateClass::Unmapped);
    }
    for status in [200, 401, 403, 409, 429, 500, 503] {
        assert!(!file.refuses_create(status));
    }
    assert!(!file.accepts_version("") || file.accepted_versions().is_empty());
    assert!(file.key_retention_seconds() >= 60 && file.limits().body_bytes >= 1024);
    assert!(file.timeouts().request_seconds >= 1);
    assert!(!file.version_pointers().is_empty());
}

/// A change, as it would be told from the other side, in an order that doesn't depend on the side.
fn mirrored(changes: &[Change]) -> Vec<String> {
    sorted(changes.iter().map(|change| {
        let field = change.field.as_str();
        match &change.what {
            Difference::Added(word) => format!("{field} -{word:?}"),
            Difference::Removed(word) => format!("{field} +{word:?}"),
            Difference::Moved { word, to } => {
                format!("{} {:?} {field}", to.as_str(), folded(field, word))
            }
            Difference::Pointers { old, new } => format!("{field} {new:?} {old:?}"),
            Difference::Number { old, new } => format!("{field} {new} {old}"),
        }
    }))
}

fn mirrored_back(changes: &[Change]) -> Vec<String> {
    sorted(changes.iter().map(|change| {
        let field = change.field.as_str();
        match &change.what {
            Difference::Added(word) => format!("{field} +{word:?}"),
            Difference::Removed(word) => format!("{field} -{word:?}"),
            Difference::Moved { word, to } => {
                format!("{field} {:?} {}", folded(field, word), to.as_str())
            }
            Difference::Pointers { old, new } => format!("{field} {old:?} {new:?}"),
            Difference::Number { old, new } => format!("{field} {old} {new}"),
        }
    }))
}

/// A state that moved is told as the new file writes it, and compared without case.
fn folded(field: &str, word: &str) -> String {
    if field.starts_with("states.") {
        word.to_lowercase()
    } else {
        word.to_owned()
    }
}

fn sorted(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

/// Where no difference is told, there is none in what the operator asks a file.
fn reads_alike(old: &Contract, new: &Contract) {
    let builtin = Contract::builtin().unwrap();
    for state in ["queued", "running", "stopping", "done", "failed", "aborted"] {
        assert_eq!(old.state(state), new.state(state));
    }
    for code in ["approval_required", "version_conflict", "not_found"] {
        assert_eq!(old.code(code), new.code(code));
    }
    for status in 100..600 {
        assert_eq!(old.refuses_create(status), new.refuses_create(status));
    }
    let versions = [old, new, &builtin];
    for version in versions.iter().flat_map(|file| file.accepted_versions()) {
        assert_eq!(old.accepts_version(version), new.accepts_version(version));
    }
    assert_eq!(old.key_retention_seconds(), new.key_retention_seconds());
    assert_eq!(old.limits().body_bytes, new.limits().body_bytes);
    assert_eq!(old.knows_identity(), new.knows_identity());
    let answer =
        serde_json::json!({"runId": "r", "id": "i", "state": "s", "status": "t", "version": 1});
    let answer = serde_json::value::to_raw_value(&answer).unwrap();
    assert_eq!(old.run_id_of(&answer), new.run_id_of(&answer));
    assert_eq!(old.run_state_of(&answer), new.run_state_of(&answer));
    assert_eq!(old.identity_of(&answer), new.identity_of(&answer));
    assert_eq!(old.version_of(&answer), new.version_of(&answer));
}
