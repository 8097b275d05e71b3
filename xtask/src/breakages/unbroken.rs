//! The control: what is not broken passes the same tests, in the same clone, with the same patience.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use super::BreakagesError;
use super::trial::ResultsError;
use super::workshop::{Workshop, by_suite};

/// In the folder of the results: the tests that have passed.
const FILE: &str = "unbroken.json";

/// Runs those of the tests that have not yet passed. The names of those that pass are kept suite by suite.
pub(super) fn passes(tests: &BTreeSet<String>, folder: &Path) -> Result<(), BreakagesError> {
    let mut passed = kept(folder)?;
    let left: BTreeSet<String> = tests.difference(&passed).cloned().collect();
    let mut failing = Vec::new();
    for (suite, names) in by_suite(&left) {
        let suite_name = &suite.name;
        let many = names.len();
        eprintln!("breakages: {many} tests of {suite_name} run before anything is broken");
        let passing = Workshop::open(1)?.passing_unbroken(suite, &names)?;
        let all = names.iter().map(|name| format!("{suite_name}::{name}"));
        failing.extend(all.filter(|name| !passing.contains(name)));
        passed.extend(passing);
        keep(&passed, folder)?;
    }
    if failing.is_empty() {
        Ok(())
    } else {
        Err(BreakagesError::Unbroken(failing))
    }
}

fn kept(folder: &Path) -> Result<BTreeSet<String>, ResultsError> {
    let file = folder.join(FILE);
    match fs::read_to_string(&file) {
        Ok(text) => {
            serde_json::from_str(&text).map_err(|source| ResultsError::Format { file, source })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(source) => Err(ResultsError::File { file, source }),
    }
}

fn keep(passed: &BTreeSet<String>, folder: &Path) -> Result<(), ResultsError> {
    let file = folder.join(FILE);
    let write = || -> io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(&file, serde_json::to_string_pretty(passed)?)
    };
    write().map_err(|source| ResultsError::File {
        file: file.clone(),
        source,
    })
}
