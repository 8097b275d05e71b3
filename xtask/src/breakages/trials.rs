//! All trials: first those that can be built together, and then the others one by one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use test_support::source::breakages::Breakage;
use test_support::source::proofs::Proved;

use super::batch::Batch;
use super::ran::with_feature;
use super::trial::Trial;
use super::workshop::Workshop;
use super::{BreakagesError, unbroken};

/// So few are faster tried one by one than built with all tests.
const FEW: usize = 4;

/// With which the suites are compiled, one after the other: none, and that of the proofs.
const FEATURES: [Option<&str>; 2] = [None, Some("proofs")];

/// How they are tried.
pub(super) struct Trials<'a> {
    /// So many at a time.
    pub(super) jobs: usize,
    /// Where the results are kept.
    pub(super) folder: &'a Path,
    pub(super) statements: &'a [Proved],
    /// When no further one is begun.
    pub(super) until: Option<Instant>,
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
    pub(super) fn together<'b>(
        &self,
        mut left: Vec<&'b Breakage>,
    ) -> Result<Vec<&'b Breakage>, BreakagesError> {
        for feature in FEATURES {
            let has_tests = |own: &&Breakage| !with_feature(&self.tests(own), feature).is_empty();
            let own: Vec<&Breakage> = left.iter().copied().filter(has_tests).collect();
            if own.len() < FEW || self.over() {
                continue;
            }
            let workshop = Workshop::open(0)?;
            let mut batch = Batch::of(&own, &workshop.tree)?;
            let built = batch.build(&workshop, feature)?;
            let own: Vec<_> = batch.breakages().collect();
            let all: Vec<&Breakage> = own.iter().map(|(_, breakage)| *breakage).collect();
            let tests = built.own(&self.all_tests(&all));
            let (many, of) = (own.len(), tests.len());
            eprintln!("breakages: {many} are built together, with {of} tests");
            let passing = |suite: &_, names: &[&str]| built.passing(suite, names);
            let failing = unbroken::failing(&tests, &self.control(feature), passing)?;
            if !failing.is_empty() {
                eprintln!("breakages: not tried together: {failing:?}");
            }
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

    /// Each by itself, in as many clones as there are jobs. A test that fails before anything is broken would notice
    /// everything: what only such a test could still notice is left for another run.
    pub(super) fn one_by_one(&self, left: &[&Breakage]) -> Result<(), BreakagesError> {
        if self.over() {
            return Ok(());
        }
        let mut tests = self.all_tests(left);
        for feature in FEATURES {
            // Switched off is not broken.
            let passed = unbroken::kept(&self.control(feature))?;
            tests.retain(|test| !passed.contains(test));
        }
        let passing = |suite: &_, names: &[&str]| Workshop::open(1)?.passing_unbroken(suite, names);
        let failing = unbroken::failing(&tests, &self.folder.join("unbroken.json"), passing)?;
        if !failing.is_empty() {
            eprintln!("breakages: these fail before anything is broken: {failing:?}");
        }
        self.each(left, |worker, breakage| {
            let tests = self.tests(breakage);
            let passing = tests.difference(&failing).cloned().collect();
            let trial = Workshop::open(worker)?.tries(breakage, &passing)?;
            if trial.noticed() || passing.len() == tests.len() {
                self.keep(&trial, breakage)?;
            }
            Ok(())
        })
    }

    /// Whether it is too late to begin anything.
    fn over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Which tests pass in the build of a batch while nothing is switched on.
    fn control(&self, feature: Option<&str>) -> PathBuf {
        let name = feature.unwrap_or("plain");
        self.folder.join(format!("unbroken.{name}.json"))
    }

    fn keep(&self, trial: &Trial, breakage: &Breakage) -> Result<(), BreakagesError> {
        eprintln!("breakages: {}", trial.line(breakage));
        Ok(trial.keep(self.folder, breakage)?)
    }

    /// Those that have no result yet.
    pub(super) fn left<'b>(
        &self,
        all: Vec<&'b Breakage>,
    ) -> Result<Vec<&'b Breakage>, BreakagesError> {
        let mut left = Vec::new();
        for breakage in all {
            if Trial::kept(self.folder, breakage)?.is_none() {
                left.push(breakage);
            }
        }
        Ok(left)
    }

    /// Does the work for each, until time is up, by as many workers as there are jobs; they are numbered from 1.
    fn each<T: Copy + Sync>(
        &self,
        all: &[T],
        work: impl Fn(usize, T) -> Result<(), BreakagesError> + Sync,
    ) -> Result<(), BreakagesError> {
        let next = Mutex::new(all.iter());
        let (next, work) = (&next, &work);
        let one = |worker: usize| -> Result<(), BreakagesError> {
            loop {
                if self.over() {
                    return Ok(());
                }
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
