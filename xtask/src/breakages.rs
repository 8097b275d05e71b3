//! Breaks each statement on purpose, by the lists in tests/breakages, and runs the tests that are marked with it: one
//! of them must fail.

mod batch;
mod commands;
mod earlier;
mod messages;
mod ran;
mod results;
mod switch;
mod tally;
mod trial;
mod trials;
mod unbroken;
mod workshop;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use test_support::source::breakages::{self, Breakage};
use test_support::source::proofs;

use tally::Tally;
use trials::Trials;

#[derive(Args)]
#[command(after_help = "\
Works in clones of the last commit, target/breakages/tree-N. A test that fails there before anything is
broken doesn't count. What only changes functions of the operator is built together and switched on for each trial; everything
else, and what was not noticed so, has a build of its own. What was tried on this commit is kept in
target/breakages/COMMIT and not tried again, nor is what docs/reliability/breakages.json says of the same code.")]
pub(crate) struct Options {
    /// The statements to break; unset, all of them.
    ids: Vec<String>,
    /// How many are tried at a time, each in a clone of its own; unset, one on each core.
    #[arg(long)]
    jobs: Option<usize>,
    /// Only prints what the results so far come to.
    #[arg(long)]
    count: bool,
    /// Builds each separately, and none together.
    #[arg(long)]
    alone: bool,
    /// Begins no trial after so many minutes, and leaves the others for another run.
    #[arg(long)]
    minutes: Option<u64>,
    /// Where the results are kept.
    #[arg(long, env = "RUN_OPERATOR_BREAKAGES_DIR", value_name = "FOLDER")]
    results: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum BreakagesError {
    #[error("{0}")]
    Lists(String),
    #[error("no statement is called {0}; docs/conformance.md has their names")]
    Unknown(String),
    #[error(transparent)]
    Workshop(#[from] workshop::WorkshopError),
    #[error(transparent)]
    Control(#[from] unbroken::UnbrokenError),
    #[error("failed to keep or read the results")]
    Results(#[from] results::ResultsError),
    #[error(
        "{0} breakages were not noticed by a test that is marked with their statement, or can't be tried"
    )]
    Unnoticed(usize),
    #[error("{0} breakages are not yet tried")]
    Left(usize),
}

/// Tries the breakages, and keeps the figures of what was tried.
pub(crate) fn run(options: &Options) -> Result<(), BreakagesError> {
    let all = breakages::all();
    let statements = proofs::all().map_err(BreakagesError::Lists)?;
    let ids: BTreeSet<&str> = statements.iter().map(|p| p.statement.id.as_str()).collect();
    let unknown = options.ids.iter().find(|id| !ids.contains(id.as_str()));
    if let Some(unknown) = unknown {
        return Err(BreakagesError::Unknown(unknown.clone()));
    }
    let wanted =
        |breakage: &&Breakage| options.ids.is_empty() || options.ids.contains(&breakage.id);
    let commit = workshop::commit()?;
    let folder = options
        .results
        .clone()
        .unwrap_or_else(|| workshop::folder().join(&commit));
    let chosen: Vec<&Breakage> = all.iter().filter(wanted).collect();
    earlier::take_over(&all, &folder)?;
    if !options.count {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let trials = Trials {
            jobs: options.jobs.unwrap_or(cores),
            folder: &folder,
            statements: &statements,
            until: options
                .minutes
                .map(|minutes| Instant::now() + Duration::from_mins(minutes)),
        };
        let left = trials.left(chosen.clone())?;
        eprintln!(
            "breakages: {} of {} are to be tried on {commit}",
            left.len(),
            chosen.len()
        );
        let left = if options.alone {
            left
        } else {
            trials.together(left)?
        };
        trials.one_by_one(&left)?;
    }
    let tally = Tally::of(&chosen, &statements, &folder)?;
    let (unnoticed, left) = tally.report();
    if options.ids.is_empty() {
        tally.figures().record();
    }
    match (unnoticed, left) {
        (0, 0) => Ok(()),
        (0, left) if options.minutes.is_none() => Err(BreakagesError::Left(left)),
        (0, _) => Ok(()),
        (unnoticed, _) => Err(BreakagesError::Unnoticed(unnoticed)),
    }
}
