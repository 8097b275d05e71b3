//! What came of one breakage, kept as a file of its own: an interrupted run goes on with the others.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use test_support::source::breakages::Breakage;

use super::results::{self, ResultsError};

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Outcome {
    /// These failed, of so many tests that ran.
    Failed { tests: BTreeSet<String>, of: usize },
    /// None failed, of so many.
    Passed { of: usize },
    /// The tests did not end in time.
    Hung,
    /// It can't be compiled: the list is wrong.
    NotCompiled { why: String },
    /// The statement has no marked test that Cargo can run.
    NoTest,
}

/// A breakage that was tried.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Trial {
    pub(super) outcome: Outcome,
    /// How long it took, with its own build if it had one.
    pub(super) seconds: u64,
    /// What was tried: another edit under the same id is tried again.
    breakage: Breakage,
}

impl Trial {
    pub(super) fn new(breakage: &Breakage, outcome: Outcome, seconds: u64) -> Self {
        Self {
            outcome,
            seconds,
            breakage: breakage.clone(),
        }
    }

    /// Whether a marked test has noticed it.
    pub(super) fn noticed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed { .. } | Outcome::Hung)
    }

    /// It in a line.
    pub(super) fn line(&self, breakage: &Breakage) -> String {
        let Breakage { id, broken, .. } = breakage;
        let what = match &self.outcome {
            Outcome::Failed { tests, of } => format!("{} of {of} failed", tests.len()),
            Outcome::Passed { of } => format!("NOT NOTICED by {of}"),
            Outcome::Hung => "the tests did not end".to_owned(),
            Outcome::NotCompiled { why } => format!("NOT COMPILED\n{why}"),
            Outcome::NoTest => "NO TEST is marked with it".to_owned(),
        };
        format!("{id}: {broken} {what}, {} s", self.seconds)
    }

    /// That of a breakage, if it was tried.
    pub(super) fn kept(folder: &Path, breakage: &Breakage) -> Result<Option<Self>, ResultsError> {
        let trial: Option<Self> = results::read(&place(folder, breakage))?;
        Ok(trial.filter(|trial| trial.breakage == *breakage))
    }

    /// Keeps it.
    pub(super) fn keep(&self, folder: &Path, breakage: &Breakage) -> Result<(), ResultsError> {
        results::write(&place(folder, breakage), self)
    }
}

/// The file of a breakage: several have one id, and their sentences differ.
fn place(folder: &Path, breakage: &Breakage) -> PathBuf {
    let words: String = breakage
        .broken
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == ' ')
        .map(|c| if c == ' ' { '-' } else { c })
        .collect();
    folder.join(format!("{}.{words}.json", breakage.id))
}
