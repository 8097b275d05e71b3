//! The control: what is not broken passes the same tests, in the same clone, with the same patience.

use std::collections::BTreeSet;
use std::path::Path;

use test_support::source::suites::Suite;

use super::ran::by_suite;
use super::results::{self, ResultsError};
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
        results::write(file, &passed)?;
    }
    let tried = by_suite(&left).into_iter().flat_map(|(suite, names)| {
        let names = names.into_iter();
        names.map(|name| format!("{}::{name}", suite.name))
    });
    Ok(tried.filter(|name| !passed.contains(name)).collect())
}

/// Those that have passed before; none without the file.
pub(super) fn kept(file: &Path) -> Result<BTreeSet<String>, ResultsError> {
    Ok(results::read(file)?.unwrap_or_default())
}
