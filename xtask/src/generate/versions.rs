//! The workspace's version in every other file that states it. Its one place is `[workspace.package]` in Cargo.toml.

use std::path::Path;

use test_support::root;

use super::Generated;
use crate::common::{Outcome, below, read};

/// The version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Where documents, examples and the chart's metadata are.
const PLACES: [&str; 5] = [
    "README.md",
    "SECURITY.md",
    "charts/run-operator/Chart.yaml",
    "deploy",
    "docs",
];
/// What stands directly before our version, and before no other's.
const MARKS: [&str; 16] = [
    "run-operator:",
    "reference-service:",
    "kubectl-runop:",
    "run-operator-",
    "run-operator_",
    "kubectl-runop_",
    ".ci/krew ",
    "charts/run-operator --version ",
    "VERSION=",
    "releases/download/v",
    "refs/tags/v",
    "newTag: ",
    "targetRevision: ",
    "\n    tag: ",
    "\nversion: ",
    "\nappVersion: ",
];

/// Every file that states the version.
pub(crate) fn files() -> Outcome<Vec<Generated>> {
    let mut files = Vec::new();
    for place in PLACES {
        for path in below(&root().join(place))? {
            let path = path.strip_prefix(root()).unwrap_or(&path);
            let text = path.extension().is_some_and(|e| e == "md" || e == "yaml");
            if text {
                files.extend(stating(path)?);
            }
        }
    }
    Ok(files)
}

/// The file with our version after each mark, if it states one.
fn stating(path: &Path) -> Outcome<Option<Generated>> {
    let mut text = read(&root().join(path))?;
    let mut stated = false;
    for mark in MARKS {
        let mut pieces = text.split(mark);
        let mut new = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let length = length_of_version(piece);
            stated |= length > 0;
            let version = if length > 0 { VERSION } else { "" };
            new.extend([mark, version, &piece[length..]]);
        }
        text = new;
    }
    Ok(stated.then(|| (path.to_owned(), text)))
}

/// The length of the version `X.Y.Z` or `X.Y.Z-rc.N` that a text begins with; 0 if it begins with none.
fn length_of_version(text: &str) -> usize {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let numbers = text[..end.unwrap_or(text.len())].trim_end_matches('.');
    let parts: Vec<&str> = numbers.split('.').collect();
    if parts.len() != 3 || parts.contains(&"") {
        return 0;
    }
    // A pre-release, and not the rest of a file's name.
    let candidate = text[numbers.len()..].strip_prefix("-rc.");
    let digits =
        |rest: &str| rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    numbers.len() + candidate.map_or(0, |rest| "-rc.".len() + digits(rest))
}
