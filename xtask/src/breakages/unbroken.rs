//! The control: what is not broken passes the same tests, in the same clone, with the same patience.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use test_support::source::suites::Suite;

use super::ran::by_suite;
use super::trial::ResultsError;
use super::workshop::WorkshopError;

/// Why it can't be known which pass.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnbrokenError {
    #[error(transparent)]
    Run(#[from] WorkshopError),
    #[error("failed to keep or read which tests pass")]
    Results(#[from] ResultsError),
}

/// Runs those of the tests that have not yet passed; the names of those that fail. What passes is kept in the file,
/// suite by suite.
pub(super) fn failing(
    tests: &BTreeSet<String>,
    file: &Path,
    passing: impl Fn(&Suite, &[&str]) -> Result<BTreeSet<String>, WorkshopError>,
) -> Result<BTreeSet<String>, UnbrokenError> {
    let mut passed = kept(file)?;
    let left: BTreeSet<String> = tests.difference(&passed).cloned().collect();
    for (suite, names) in by_suite(&left) {
        let (many, name) = (names.len(), &suite.name);
        eprintln!("breakages: {many} tests of {name} run before anything is broken");
        passed.extend(passing(suite, &names)?);
        keep(&passed, file)?;
    }
    let tried = by_suite(&left).into_iter().flat_map(|(suite, names)| {
        let names = names.into_iter();
        names.map(|name| format!("{}::{name}", suite.name))
    });
    Ok(tried.filter(|name| !passed.contains(name)).collect())
}

/// Those that have passed before; none without the file.
pub(super) fn kept(file: &Path) -> Result<BTreeSet<String>, ResultsError> {
    match fs::read_to_string(file) {
        Ok(text) => serde_json::from_str(&text).map_err(|source| ResultsError::Format {
            file: file.to_owned(),
            source,
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(source) => Err(ResultsError::File {
            file: file.to_owned(),
            source,
        }),
    }
}

fn keep(passed: &BTreeSet<String>, file: &Path) -> Result<(), ResultsError> {
    let write = || -> io::Result<()> {
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(file, serde_json::to_string_pretty(passed)?)
    };
    write().map_err(|source| ResultsError::File {
        file: file.to_owned(),
        source,
    })
}
