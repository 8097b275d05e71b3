//! Breaks each statement on purpose, by the lists in tests/breakages, and runs the tests that are marked with it: one
//! of them must fail.

mod batch;
mod commands;
mod ran;
mod switch;
mod tally;
mod trial;
mod unbroken;
mod workshop;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use clap::Args;
use test_support::source::breakages::{self, Breakage};
use test_support::source::proofs;

use batch::Batch;
use tally::Tally;
use trial::Trial;
use workshop::Workshop;

#[derive(Args)]
#[command(after_help = "\
Works in clones of the last commit, target/breakages/tree-N. The tests must pass there before anything is
broken. What only changes functions of the operator is built together and switched on for each trial; everything
else, and what was not noticed so, is built by itself. What was tried on this commit is kept in
target/breakages/COMMIT and not tried again; another commit begins from nothing.")]
pub(crate) struct Options {
    /// The statements to break; unset, all of them.
    ids: Vec<String>,
    /// How many are tried at a time, each in a clone of its own; unset, one on each core.
    #[arg(long)]
    jobs: Option<usize>,
    /// Only prints what the results so far come to.
    #[arg(long)]
    count: bool,
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
    Results(#[from] trial::ResultsError),
    #[error(
        "these tests fail before anything is broken, so that they would notice nothing: {}",
        .0.join(", ")
    )]
    Unbroken(Vec<String>),
    #[error(
        "{0} breakages were not noticed by a test that is marked with their statement, or could not be tried"
    )]
    Unnoticed(usize),
}

/// Tries the breakages, and keeps the figures when all were tried.
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
    if !options.count {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let trials = Trials {
            jobs: options.jobs.unwrap_or(cores),
            folder: &folder,
            statements: &statements,
        };
        let left = trials.left(chosen.clone())?;
        eprintln!(
            "breakages: {} of {} are to be tried on {commit}",
            left.len(),
            chosen.len()
        );
        let left = trials.together(left)?;
        trials.one_by_one(&left)?;
    }
    let tally = Tally::of(&chosen, &statements, &folder)?;
    let unnoticed = tally.report();
    if options.ids.is_empty() {
        tally.figures().record();
    }
    match unnoticed {
        0 => Ok(()),
        unnoticed => Err(BreakagesError::Unnoticed(unnoticed)),
    }
}

/// How they are tried.
struct Trials<'a> {
    /// So many at a time.
    jobs: usize,
    /// Where the results are kept.
    folder: &'a Path,
    statements: &'a [proofs::Proved],
}

impl Trials<'_> {
    /// The tests that are marked with the statement of a breakage.
    fn tests(&self, breakage: &Breakage) -> BTreeSet<String> {
        let mut all = self.statements.iter();
        let proved = all.find(|proved| proved.statement.id == breakage.id);
        proved
            .map(|proved| proved.tests.clone())
            .unwrap_or_default()
    }

    fn all_tests(&self, breakages: &[&Breakage]) -> BTreeSet<String> {
        breakages.iter().flat_map(|own| self.tests(own)).collect()
    }

    /// Those that can be built together, first without and then with the feature of the proofs. Which are left.
    fn together<'b>(
        &self,
        mut left: Vec<&'b Breakage>,
    ) -> Result<Vec<&'b Breakage>, BreakagesError> {
        for feature in [None, Some("proofs")] {
            let workshop = Workshop::open(0)?;
            let mut batch = Batch::of(&left)?;
            if batch.breakages().next().is_none() {
                break;
            }
            let built = batch.build(&workshop, feature)?;
            let all: Vec<&Breakage> = batch.breakages().map(|(_, breakage)| breakage).collect();
            let tests = built.own(&self.all_tests(&all));
            eprintln!(
                "breakages: {} are built together, with {} tests",
                all.len(),
                tests.len()
            );
            let control = format!("unbroken.{}.json", feature.unwrap_or("plain"));
            let passing = |suite: &_, names: &[&str]| built.passing(suite, names);
            let failing = unbroken::failing(&tests, &self.folder.join(control), passing)?;
            if !failing.is_empty() {
                eprintln!("breakages: not tried together: {failing:?}");
            }
            let own: Vec<_> = batch.breakages().collect();
            self.each(&own, |worker, (number, breakage)| {
                let tests = built.own(&self.tests(breakage));
                let tests = tests.difference(&failing).cloned().collect();
                let trial = built.tries((number, breakage), &tests, worker)?;
                if trial.noticed() {
                    self.keep(&trial, breakage)?;
                }
                Ok(())
            })?;
            left = self.left(left)?;
        }
        Ok(left)
    }

    /// Each by itself, in as many clones as there are jobs.
    fn one_by_one(&self, left: &[&Breakage]) -> Result<(), BreakagesError> {
        let passing = |suite: &_, names: &[&str]| Workshop::open(1)?.passing_unbroken(suite, names);
        let control = self.folder.join("unbroken.json");
        let failing = unbroken::failing(&self.all_tests(left), &control, passing)?;
        if !failing.is_empty() {
            return Err(BreakagesError::Unbroken(failing.into_iter().collect()));
        }
        self.each(left, |worker, breakage| {
            let trial = Workshop::open(worker)?.tries(breakage, &self.tests(breakage))?;
            self.keep(&trial, breakage)
        })
    }

    fn keep(&self, trial: &Trial, breakage: &Breakage) -> Result<(), BreakagesError> {
        eprintln!("breakages: {}", trial.line(breakage));
        Ok(trial.keep(self.folder, breakage)?)
    }

    fn left<'b>(&self, all: Vec<&'b Breakage>) -> Result<Vec<&'b Breakage>, BreakagesError> {
        let mut left = Vec::new();
        for breakage in all {
            if Trial::kept(self.folder, breakage)?.is_none() {
                left.push(breakage);
            }
        }
        Ok(left)
    }

    /// Does the work for each, by as many workers as there are jobs; they are numbered from 1.
    fn each<T: Copy + Sync>(
        &self,
        all: &[T],
        work: impl Fn(usize, T) -> Result<(), BreakagesError> + Sync,
    ) -> Result<(), BreakagesError> {
        let next = Mutex::new(all.iter());
        let (next, work) = (&next, &work);
        let one = |worker: usize| -> Result<(), BreakagesError> {
            loop {
                let item = next.lock().ok().and_then(|mut left| left.next().copied());
                let Some(item) = item else {
                    return Ok(());
                };
                work(worker, item)?;
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (1..=self.jobs.min(all.len()))
                .map(|worker| scope.spawn(move || one(worker)))
                .collect();
            let ended = workers.into_iter().map(|worker| match worker.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.collect::<Vec<_>>().into_iter().collect()
        })
    }
}
