//! What the trials come to.

use std::path::Path;

use test_support::figures::Figures;
use test_support::source::breakages::Breakage;
use test_support::source::proofs::Proved;

use super::results::ResultsError;
use super::trial::{Outcome, Trial};

/// Every breakage with what came of it, in the order of the statements.
pub(super) struct Tally<'a> {
    statements: &'a [Proved],
    tried: Vec<(&'a Breakage, Option<Trial>)>,
}

impl<'a> Tally<'a> {
    pub(super) fn of(
        breakages: &[&'a Breakage],
        statements: &'a [Proved],
        folder: &Path,
    ) -> Result<Self, ResultsError> {
        let mut tried = Vec::new();
        for proved in statements {
            for &breakage in breakages.iter().filter(|b| b.id == proved.statement.id) {
                tried.push((breakage, Trial::kept(folder, breakage)?));
            }
        }
        Ok(Self { statements, tried })
    }

    /// Prints what no test has noticed; how many went unnoticed, and how many are left.
    pub(super) fn report(&self) -> (usize, usize) {
        let (mut unnoticed, mut left) = (0, 0);
        for (breakage, trial) in &self.tried {
            match trial {
                Some(trial) if trial.noticed() => {}
                Some(trial) => {
                    unnoticed += 1;
                    println!("{}", trial.line(breakage));
                }
                None => left += 1,
            }
        }
        let all = self.tried.len();
        let noticed = all - unnoticed - left;
        println!("breakages: {noticed} of {all} were noticed, {left} are left to be tried");
        (unnoticed, left)
    }

    /// The figures of all of them.
    pub(super) fn figures(&self) -> Figures {
        let broken = |proved: &&Proved| {
            let id = &proved.statement.id;
            self.tried.iter().any(|(breakage, _)| breakage.id == *id)
        };
        let noticed = |trial: &Option<Trial>| trial.as_ref().is_some_and(Trial::noticed);
        let left = self.tried.iter().filter(|(_, trial)| trial.is_none());
        let count = self
            .tried
            .iter()
            .filter(|(_, trial)| noticed(trial))
            .count();
        let seconds: u64 = self
            .tried
            .iter()
            .flat_map(|(_, trial)| trial)
            .map(|t| t.seconds)
            .sum();
        let rows = self.tried.iter().map(|(breakage, trial)| {
            let cells = [
                breakage.id.clone(),
                breakage.broken.clone(),
                failed(trial.as_ref()),
                trial
                    .as_ref()
                    .map_or_else(String::new, |trial| trial.seconds.to_string()),
            ];
            cells.to_vec()
        });
        Figures::new("breakages")
            .row("Statements", self.statements.len())
            .row(
                "Statements that were broken",
                self.statements.iter().filter(broken).count(),
            )
            .row("Breakages", self.tried.len())
            .row("Noticed by a test that is marked with the statement", count)
            .row("Not noticed, or not tried", self.tried.len() - count)
            .row("Minutes of all trials, added up", seconds / 60)
            .left(left.count())
            .table(
                "What was broken, and the test of the statement that failed first",
                &["statement", "broken on purpose", "failed first", "seconds"],
                rows.collect(),
            )
    }
}

/// The tests that failed.
fn failed(trial: Option<&Trial>) -> String {
    match trial.map(|trial| &trial.outcome) {
        Some(Outcome::Failed { tests, .. }) => {
            let names: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
            names.join(", ")
        }
        Some(Outcome::Hung) => "they did not end".to_owned(),
        Some(Outcome::Passed { of }) => format!("**none** of {of}"),
        Some(Outcome::NotCompiled { .. }) => "**not compiled**".to_owned(),
        Some(Outcome::NoTest) => "**there is no test**".to_owned(),
        None => "**not tried**".to_owned(),
    }
}
