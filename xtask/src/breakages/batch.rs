//! All breakages that only edit functions of the operator, in one build: a trial then takes as long as its tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde::Deserialize;
use test_support::source::breakages::Breakage;
use test_support::source::suites::{SUITES, Suite};
use test_support::{calling_cargo, cargo, root};

use super::commands::LONG_LIMIT;
use super::commands::{Printed, output};
use super::ran::{Ran, Until, by_suite, feature, outcome};
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
    pub(super) fn of(breakages: &[&'a Breakage]) -> Result<Self, WorkshopError> {
        let mut batch = Self {
            breakages: BTreeMap::new(),
            files: BTreeMap::new(),
        };
        for (number, breakage) in (1..).zip(breakages.iter().copied()) {
            if batch.takes(number, breakage)? {
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

    fn takes(&mut self, number: usize, breakage: &Breakage) -> Result<bool, WorkshopError> {
        for (file, edited) in breakage.texts(root()).map_err(WorkshopError::Apply)? {
            let is_rust = Path::new(file).extension().is_some_and(|end| end == "rs");
            if !file.starts_with(FOLDER) || !is_rust {
                return Ok(false);
            }
            if !self.files.contains_key(file) {
                let path = root().join(file);
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
                    programs: programs(&printed.text, &workshop.tree),
                });
            }
            let wrong = wrong(&printed.text, &lines);
            if wrong.is_empty() {
                return Err(not_built(rendered(&printed.text)));
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
        let own = by_suite(tests).into_iter().flat_map(|(suite, names)| {
            let here = suite.name != LEFT_OUT && self.program(suite).is_some();
            let own = names.into_iter().filter(move |name| {
                here && feature(suite, std::slice::from_ref(name)) == self.feature
            });
            own.map(|name| format!("{}::{name}", suite.name))
        });
        own.collect()
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

/// The lines of each file that are each breakage's.
type Lines = BTreeMap<String, Vec<(Range<usize>, usize)>>;

/// A line of Cargo's, in JSON.
#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Message {
    CompilerMessage {
        message: Diagnostic,
    },
    CompilerArtifact {
        target: Target,
        profile: Profile,
        executable: Option<PathBuf>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    spans: Vec<Span>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    line_start: usize,
    is_primary: bool,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

fn messages(text: &str) -> impl Iterator<Item = Message> + '_ {
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
}

fn errors(text: &str) -> impl Iterator<Item = Diagnostic> + '_ {
    messages(text).filter_map(|message| match message {
        Message::CompilerMessage { message } if message.level == "error" => Some(message),
        _ => None,
    })
}

/// The breakages that the compiler complains of.
fn wrong(text: &str, lines: &Lines) -> BTreeSet<usize> {
    let of = |span: &Span| {
        let own = lines.get(&span.file_name)?.iter();
        let mut own = own.filter(|(lines, _)| lines.contains(&span.line_start));
        own.next().map(|(_, number)| *number)
    };
    let places = errors(text).flat_map(|error| error.spans);
    places
        .filter(|span| span.is_primary)
        .filter_map(|span| of(&span))
        .collect()
}

fn rendered(text: &str) -> String {
    let all: Vec<String> = errors(text).filter_map(|error| error.rendered).collect();
    all.join("\n")
}

/// The programs of the suites, by their root files.
fn programs(text: &str, tree: &Path) -> Vec<(&'static Suite, PathBuf)> {
    let built = messages(text).filter_map(|message| match message {
        Message::CompilerArtifact {
            target,
            profile,
            executable,
        } if profile.test => Some((target.src_path, executable?)),
        _ => None,
    });
    let known = built.filter_map(|(source, program)| {
        let file = source.strip_prefix(tree).ok()?;
        let suite = SUITES.iter().find(|suite| suite.file == file)?;
        Some((suite, program))
    });
    known.collect()
}
