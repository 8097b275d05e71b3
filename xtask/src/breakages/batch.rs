//! All breakages that only edit functions of the operator, in one build: a trial then takes as long as its tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use test_support::source::breakages::Breakage;
use test_support::source::suites::Suite;
use test_support::{calling_cargo, cargo};

use super::commands::{LONG_LIMIT, Printed, output};
use super::messages::{self, Lines};
use super::ran::{Ran, Until, outcome, with_feature};
use super::switch::{Switched, VARIABLE};
use super::trial::Trial;
use super::workshop::{Workshop, WorkshopError};

/// What is built together.
const FOLDER: &str = "src/";
/// It tries an image, in which no variable of this machine is set.
const LEFT_OUT: &str = "install";
/// Builds until every breakage that doesn't compile beside the others is left out.
const BUILDS: usize = 20;

/// Breakages, by their number.
pub(super) struct Batch<'a> {
    breakages: BTreeMap<usize, &'a Breakage>,
    files: BTreeMap<String, Switched>,
}

/// The build of a batch.
pub(super) struct Built {
    feature: Option<String>,
    tree: PathBuf,
    programs: Vec<(&'static Suite, PathBuf)>,
}

impl<'a> Batch<'a> {
    /// Those of the breakages that can be built together.
    pub(super) fn of(breakages: &[&'a Breakage], tree: &Path) -> Result<Self, WorkshopError> {
        let mut batch = Self {
            breakages: BTreeMap::new(),
            files: BTreeMap::new(),
        };
        for (number, breakage) in (1..).zip(breakages.iter().copied()) {
            if batch.takes(number, breakage, tree)? {
                batch.breakages.insert(number, breakage);
            } else {
                batch.leaves_out(number);
            }
        }
        Ok(batch)
    }

    pub(super) fn breakages(&self) -> impl Iterator<Item = (usize, &'a Breakage)> + '_ {
        self.breakages.iter().map(|(number, own)| (*number, *own))
    }

    fn takes(
        &mut self,
        number: usize,
        breakage: &Breakage,
        tree: &Path,
    ) -> Result<bool, WorkshopError> {
        for (file, edited) in breakage.texts(tree).map_err(WorkshopError::Apply)? {
            let is_rust = Path::new(file).extension().is_some_and(|end| end == "rs");
            if !file.starts_with(FOLDER) || !is_rust {
                return Ok(false);
            }
            if !self.files.contains_key(file) {
                let path = tree.join(file);
                let source = fs::read_to_string(&path)
                    .map_err(|source| WorkshopError::File { file: path, source })?;
                let Some(switched) = Switched::of(source) else {
                    return Ok(false);
                };
                self.files.insert(file.to_owned(), switched);
            }
            let known = self.files.get_mut(file);
            if !known.is_some_and(|known| known.takes(number, &edited)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn leaves_out(&mut self, number: usize) {
        self.breakages.remove(&number);
        for file in self.files.values_mut() {
            file.leaves_out(number);
        }
    }

    /// Builds it with all tests of this feature. What can't be compiled beside the others is left out of the batch.
    pub(super) fn build(
        &mut self,
        workshop: &Workshop,
        feature: Option<&str>,
    ) -> Result<Built, WorkshopError> {
        for _ in 0..BUILDS {
            let lines = self.write(&workshop.tree)?;
            let mut build = cargo();
            build.args(["build", "--locked", "--bins", "--message-format", "json"]);
            let printed = run(build, workshop, feature)?;
            if printed.success == Some(true) {
                let mut tests = cargo();
                tests.args(["test", "--locked", "--no-run"]);
                tests.args(["--message-format", "json-render-diagnostics"]);
                let printed = run(tests, workshop, feature)?;
                if printed.success != Some(true) {
                    return Err(not_built(printed.errors()));
                }
                return Ok(Built {
                    feature: feature.map(str::to_owned),
                    tree: workshop.tree.clone(),
                    programs: messages::programs(&printed.text, &workshop.tree),
                });
            }
            let wrong = messages::wrong(&printed.text, &lines);
            if wrong.is_empty() {
                return Err(not_built(messages::rendered(&printed.text)));
            }
            for number in wrong {
                self.leaves_out(number);
            }
        }
        Err(not_built(format!("not after {BUILDS} builds")))
    }

    /// Writes the sources into a clone; which of their lines are whose.
    fn write(&self, tree: &Path) -> Result<Lines, WorkshopError> {
        let mut all = Lines::new();
        for (name, switched) in &self.files {
            let (text, lines) = switched.text();
            let file = tree.join(name);
            fs::write(&file, text).map_err(|source| WorkshopError::File { file, source })?;
            all.insert(name.clone(), lines);
        }
        Ok(all)
    }
}

impl Built {
    /// The marked tests that it can run, of these.
    pub(super) fn own(&self, tests: &BTreeSet<String>) -> BTreeSet<String> {
        let here = |test: &String| {
            let suite = test.split_once("::").map_or("", |(suite, _)| suite);
            suite != LEFT_OUT && self.programs.iter().any(|(own, _)| own.name == suite)
        };
        let own = with_feature(tests, self.feature.as_deref()).into_iter();
        own.filter(here).collect()
    }

    /// Runs these tests of a suite with nothing broken: those that pass.
    pub(super) fn passing(
        &self,
        suite: &Suite,
        names: &[&str],
    ) -> Result<BTreeSet<String>, WorkshopError> {
        Ok(self.ran(suite, names, None, 0, Until::End)?.passed())
    }

    /// Runs these tests with a breakage, until one has failed; `worker` has its own log.
    pub(super) fn tries(
        &self,
        (number, breakage): (usize, &Breakage),
        tests: &BTreeSet<String>,
        worker: usize,
    ) -> Result<Trial, WorkshopError> {
        let began = Instant::now();
        let outcome = outcome(tests, |suite, names| {
            self.ran(suite, names, Some(number), worker, Until::Failure)
        });
        Ok(Trial::new(breakage, outcome?, began.elapsed().as_secs()))
    }

    fn program(&self, suite: &Suite) -> Option<&Path> {
        let own = self.programs.iter().find(|(of, _)| of.name == suite.name);
        own.map(|(_, program)| program.as_path())
    }

    fn ran(
        &self,
        suite: &Suite,
        names: &[&str],
        number: Option<usize>,
        worker: usize,
        until: Until,
    ) -> Result<Ran, WorkshopError> {
        let Some(program) = self.program(suite) else {
            return Ok(Ran::default());
        };
        let mut command = calling_cargo(program);
        command.args(names).current_dir(&self.tree);
        if let Some(number) = number {
            command.env(VARIABLE, number.to_string());
        }
        let log = self.tree.with_extension(format!("{worker}.log"));
        Ran::of(&mut command, &log, suite, names, until)
    }
}

fn run(
    mut command: Command,
    workshop: &Workshop,
    feature: Option<&str>,
) -> Result<Printed, WorkshopError> {
    command.args(feature.iter().flat_map(|own| ["--features", own]));
    command.current_dir(&workshop.tree);
    output(&mut command, &workshop.log(), LONG_LIMIT, |_| false)
}

fn not_built(output: String) -> WorkshopError {
    WorkshopError::Failed {
        command: "building the breakages together".to_owned(),
        output,
    }
}
