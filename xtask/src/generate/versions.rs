//! The workspace's version in every other file that states it. Its one place is `[workspace.package]` in Cargo.toml.

use std::path::Path;

use test_support::root;

use super::Generated;
use crate::common::{Outcome, below, read};

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
    ".ci/krew ",
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
    let mut files = Vec::new();
    state(Path::new(CHART), &CHART_MARKS, &mut files)?;
    state(Path::new(FLUX), &FLUX_MARKS, &mut files)?;
    for place in PLACES {
        for path in below(&root().join(place))? {
            let path = path.strip_prefix(root()).unwrap_or(&path);
            let text = path.extension().is_some_and(|e| e == "md" || e == "yaml");
            if text && !OTHERS.iter().any(|other| path == Path::new(other)) {
                state(path, &MARKS, &mut files)?;
            }
        }
    }
    Ok(files)
}

/// The file with our version after each mark, if it states one.
fn state(path: &Path, marks: &[&str], files: &mut Vec<Generated>) -> Outcome<()> {
    let mut text = read(&root().join(path))?;
    let mut stated = false;
    for mark in marks {
        let mut pieces = text.split(mark);
        let mut new = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let length = version(piece);
            stated |= length > 0;
            new.extend([
                *mark,
                if length > 0 { VERSION } else { "" },
                &piece[length..],
            ]);
        }
        text = new;
    }
    files.extend(stated.then(|| (path.to_owned(), text)));
    Ok(())
}

/// The length of the version `X.Y.Z` or `X.Y.Z-rc.N` that a text begins with; 0 if it begins with none.
fn version(text: &str) -> usize {
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
