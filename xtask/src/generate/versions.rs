//! The workspace's version in every other file that states it. Its one place is `[workspace.package]` in Cargo.toml.

use std::path::{Path, PathBuf};

use crate::generate::{Generated, Outcome, root};

/// The version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");
const CHART: &str = "charts/run-operator/Chart.yaml";
/// Where documents and examples are.
const PLACES: [&str; 4] = ["README.md", "SECURITY.md", "deploy", "docs"];
/// Files that are about other versions too.
const OTHERS: [&str; 2] = ["docs/upgrade.md", "docs/api-versions.md"];
/// What stands directly before our version, and before no other's.
const MARKS: [&str; 13] = [
    "run-operator:",
    "reference-service:",
    "kubectl-runs:",
    "run-operator-",
    "run-operator_",
    "kubectl-runs_",
    "release krew --version ",
    "charts/run-operator --version ",
    "VERSION=",
    "releases/download/v",
    "refs/tags/v",
    "newTag: ",
    "targetRevision: ",
];
/// Those of the chart's metadata, and of Flux' source of the chart.
const CHART_MARKS: [&str; 3] = ["\nversion: ", "\nappVersion: ", "run-operator:"];
const FLUX: &str = "deploy/flux/operator.yaml";
const FLUX_MARKS: [&str; 1] = ["    tag: "];

/// Every file that states the version.
pub(crate) fn files() -> Outcome<Vec<Generated>> {
    let mut found = Vec::new();
    for place in PLACES {
        collect(Path::new(place), &mut found)?;
    }
    found.sort();
    let mut files = vec![changed(Path::new(CHART), &CHART_MARKS)?];
    files.push(changed(Path::new(FLUX), &FLUX_MARKS)?);
    for path in found {
        files.push(changed(&path, &MARKS)?);
    }
    Ok(files.into_iter().flatten().collect())
}

/// Text files below a folder.
fn collect(path: &Path, found: &mut Vec<PathBuf>) -> Outcome<()> {
    let full = root().join(path);
    if full.is_dir() {
        for entry in std::fs::read_dir(full)? {
            collect(&path.join(entry?.file_name()), found)?;
        }
    } else if path.extension().is_some_and(|e| e == "md" || e == "yaml")
        && !OTHERS.iter().any(|other| path == Path::new(other))
    {
        found.push(path.to_owned());
    }
    Ok(())
}

/// The file with our version after each mark; none if it states no version.
fn changed(path: &Path, marks: &[&str]) -> Outcome<Option<Generated>> {
    let text = std::fs::read_to_string(root().join(path))?;
    let mut stated = false;
    let mut new = text;
    for mark in marks {
        let mut pieces = new.split(mark);
        let mut result = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            result.push_str(mark);
            let length = version(piece);
            stated |= length > 0;
            result.push_str(if length > 0 { VERSION } else { "" });
            result.push_str(&piece[length..]);
        }
        new = result;
    }
    Ok(stated.then(|| Generated::new(path, new)))
}

/// The length of the version `X.Y.Z` that a text begins with; 0 if it begins with none.
fn version(text: &str) -> usize {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let numbers = text[..end.unwrap_or(text.len())].trim_end_matches('.');
    let parts: Vec<&str> = numbers.split('.').collect();
    if parts.len() != 3 || parts.iter().any(|part| part.is_empty()) {
        return 0;
    }
    // A pre-release, and not the rest of a file's name.
    let rest = &text[numbers.len()..];
    let is_candidate = rest.strip_prefix("-rc.").map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit());
        4 + end.unwrap_or(rest.len())
    });
    numbers.len() + is_candidate.unwrap_or(0)
}
