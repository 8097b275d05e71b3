//! A clone in which the program is broken, built and tried, one breakage after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use test_support::source::breakages::Breakage;
use test_support::source::suites::{SUITES, Suite, TESTS};
use test_support::{calling_cargo, cargo, root};

use super::trial::{Outcome, Trial};

/// Time for one suite's marked tests, after which they count as hung. Most take seconds.
const LIMIT: Duration = Duration::from_mins(10);
/// Time for one build, or for all tests of the program that is not broken.
const LONG_LIMIT: Duration = Duration::from_mins(30);
/// How long a test waits for what a broken program may never do, in seconds. The unbroken one passes with it.
const PATIENCE: &str = "45";
/// Tests at a time: most of them wait.
const THREADS: &str = "4";
/// Pause between two looks at a command.
const POLL: Duration = Duration::from_millis(50);
/// Of a compiler's output, what is kept.
const LINES: usize = 20;
/// The suites that take long, the longest last. All others take seconds.
const SLOW: [&str; 5] = ["crds", "packaging", "e2e", "chaos", "install"];
/// It tries every state, which takes too long with each breakage, and has ablations of its own.
const LEFT_OUT: &str = "model";

#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkshopError {
    #[error("failed to run {program}")]
    Run { program: String, source: io::Error },
    #[error("{command} failed: {output}")]
    Failed { command: String, output: String },
    #[error("failed to write {}", file.display())]
    File { file: PathBuf, source: io::Error },
    #[error("a breakage no longer fits: {0}")]
    Apply(String),
}

/// A clone.
pub(super) struct Workshop {
    tree: PathBuf,
}

/// Where clones and results are.
pub(super) fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root()
        .join(target.unwrap_or_else(|| "target".into()))
        .join("breakages")
}

/// The last commit of the checkout, short.
pub(super) fn commit() -> Result<String, WorkshopError> {
    git(root(), &["rev-parse", "--short", "HEAD"])
}

impl Workshop {
    /// A clone of the last commit; what an earlier one has built is kept.
    pub(super) fn open(number: usize) -> Result<Self, WorkshopError> {
        let tree = folder().join(format!("tree-{number}"));
        if !tree.join(".git").exists() {
            let (from, to) = (root().display().to_string(), tree.display().to_string());
            git(root(), &["clone", "--quiet", "--shared", &from, &to])?;
        }
        let from = root().display().to_string();
        git(&tree, &["fetch", "--quiet", &from, "HEAD"])?;
        git(
            &tree,
            &["checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"],
        )?;
        Ok(Self { tree })
    }

    /// Breaks the program, and runs these tests until one has failed.
    pub(super) fn tries(
        &self,
        breakage: &Breakage,
        tests: &BTreeSet<String>,
    ) -> Result<Trial, WorkshopError> {
        let began = Instant::now();
        git(&self.tree, &["checkout", "--quiet", "--force", "."])?;
        breakage.apply(&self.tree).map_err(WorkshopError::Apply)?;
        let outcome = self.outcome(tests)?;
        git(&self.tree, &["checkout", "--quiet", "--force", "."])?;
        Ok(Trial::new(breakage, outcome, began.elapsed().as_secs()))
    }

    /// Runs tests of one suite on the program as it is: those that pass.
    pub(super) fn passing_unbroken(
        &self,
        suite: &Suite,
        names: &[&str],
    ) -> Result<BTreeSet<String>, WorkshopError> {
        if let Some(output) = self.build(suite, names)? {
            let command = format!("building {}", suite.name);
            return Err(WorkshopError::Failed { command, output });
        }
        let ran = self.ran(suite, names, Until::End)?;
        let failed: BTreeSet<&str> = ran.of(false).collect();
        let passed = ran.of(true).filter(|name| !failed.contains(name));
        Ok(passed.map(str::to_owned).collect())
    }

    /// The suites from the fastest to the slowest, and none after one that has noticed it.
    fn outcome(&self, tests: &BTreeSet<String>) -> Result<Outcome, WorkshopError> {
        let (mut of, mut hung) = (0, false);
        for (suite, names) in by_suite(tests) {
            if let Some(why) = self.build(suite, &names)? {
                return Ok(Outcome::NotCompiled { why });
            }
            let ran = self.ran(suite, &names, Until::Failure)?;
            of += ran.results.len();
            let tests: BTreeSet<String> = ran.of(false).map(str::to_owned).collect();
            if !tests.is_empty() {
                return Ok(Outcome::Failed { tests, of });
            }
            hung |= !ran.ended;
        }
        Ok(match (of, hung) {
            (_, true) => Outcome::Hung,
            (0, false) => Outcome::NoTest,
            (of, false) => Outcome::Passed { of },
        })
    }

    /// Builds a suite and the programs that it runs; what the compiler says if it can't.
    fn build(&self, suite: &Suite, names: &[&str]) -> Result<Option<String>, WorkshopError> {
        let mut steps = vec![test(suite, names)];
        steps[0].arg("--no-run");
        let without_programs = ["unit", "policy", "project"];
        if !without_programs.contains(&suite.name.as_str()) {
            let mut programs = cargo();
            programs.args(["build", "--locked", "--bins"]);
            steps.push(programs);
        }
        if suite.name == "install" {
            steps.push(images());
        }
        for mut step in steps {
            let output = self.output(&mut step, LONG_LIMIT, |_| false)?;
            match output.success {
                Some(true) => {}
                Some(false) => return Ok(Some(output.errors())),
                None => return Ok(Some("the build did not end".to_owned())),
            }
        }
        Ok(None)
    }

    /// Runs tests of a suite.
    fn ran(&self, suite: &Suite, names: &[&str], until: Until) -> Result<Ran, WorkshopError> {
        let mut command = test(suite, names);
        command.arg("--").args(names);
        let results = |text: &str| -> Vec<(String, bool)> {
            let read = text.lines().filter_map(|line| result(line, names));
            read.map(|(name, passed)| (format!("{}::{name}", suite.name), passed))
                .collect()
        };
        let failed = |text: &str| results(text).iter().any(|(_, passed)| !passed);
        let output = match until {
            Until::Failure => self.output(&mut command, LIMIT, failed)?,
            Until::End => self.output(&mut command, LONG_LIMIT, |_| false)?,
        };
        Ok(Ran {
            results: results(&output.text),
            ended: output.success.is_some(),
        })
    }

    /// Runs a command in the clone, at most so long, and until it has printed what is `enough`.
    fn output(
        &self,
        command: &mut Command,
        limit: Duration,
        enough: impl Fn(&str) -> bool,
    ) -> Result<Printed, WorkshopError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |source| WorkshopError::Run {
            program: program.clone(),
            source,
        };
        // Tests may leave a process behind that holds a pipe open: a file ends with its command.
        let file = self.tree.with_extension("log");
        let file_error = |source| WorkshopError::File {
            file: file.clone(),
            source,
        };
        let log = File::create(&file).map_err(file_error)?;
        let errors = log.try_clone().map_err(failed)?;
        command.current_dir(&self.tree).process_group(0);
        command.env_remove("CARGO_TARGET_DIR").env_remove("CI");
        command.env("CARGO_TERM_COLOR", "never");
        command.env("RUN_OPERATOR_TEST_PATIENCE", PATIENCE);
        command.env("RUST_TEST_THREADS", THREADS);
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let mut child = command.spawn().map_err(failed)?;
        let began = Instant::now();
        let mut read = 0;
        let success = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break Some(status.success());
            }
            let written = fs::metadata(&file).map_err(file_error)?.len();
            let more = std::mem::replace(&mut read, written) != written;
            if began.elapsed() > limit || more && enough(&text(&file).map_err(file_error)?) {
                let group = format!("-{}", child.id());
                let kill = Command::new("kill").args(["-KILL", "--", &group]).status();
                kill.map_err(failed)?;
                child.wait().map_err(failed)?;
                break None;
            }
            std::thread::sleep(POLL);
        };
        let text = text(&file).map_err(file_error)?;
        Ok(Printed { success, text })
    }
}

/// When the run of a suite is over.
#[derive(Clone, Copy)]
enum Until {
    /// One has failed: what the others do is not needed.
    Failure,
    End,
}

/// The run of a suite.
struct Ran {
    /// Tests that have ended, with their suite, and whether each passed.
    results: Vec<(String, bool)>,
    /// False if it was ended before it had ended by itself.
    ended: bool,
}

impl Ran {
    /// The tests, or their cases, that have passed, or that have failed.
    fn of(&self, passed: bool) -> impl Iterator<Item = &str> {
        let own = self
            .results
            .iter()
            .filter(move |(_, result)| *result == passed);
        own.map(|(name, _)| name.as_str())
    }
}

/// What a command has printed.
struct Printed {
    /// None if it was ended before it had ended by itself.
    success: Option<bool>,
    text: String,
}

impl Printed {
    /// What the compiler complains of.
    fn errors(&self) -> String {
        let from = self
            .text
            .lines()
            .skip_while(|line| !line.starts_with("error"));
        from.take(LINES).collect::<Vec<_>>().join("\n")
    }
}

fn text(file: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned())
}

/// The tests of each suite, the fastest suite first.
pub(super) fn by_suite(tests: &BTreeSet<String>) -> Vec<(&'static Suite, Vec<&str>)> {
    let mut suites: BTreeMap<(Option<usize>, &str), Vec<&str>> = BTreeMap::new();
    let split = tests.iter().filter_map(|test| test.split_once("::"));
    for (suite, name) in split.filter(|(suite, _)| *suite != LEFT_OUT) {
        let slow = SLOW.iter().position(|slow| *slow == suite);
        suites.entry((slow, suite)).or_default().push(name);
    }
    let known = |((_, name), tests)| {
        let suite = SUITES.iter().find(|suite| suite.name == name)?;
        Some((suite, tests))
    };
    suites.into_iter().filter_map(known).collect()
}

/// The images of the broken program, optimised no more than is needed to try them.
fn images() -> Command {
    let mut images = calling_cargo(Path::new("make"));
    images.args(["--no-print-directory", "image", "service-image"]);
    images.env("RELEASE_PROFILE", "quick");
    images
}

/// `cargo test` of a suite, with the feature that it or one of these tests needs.
fn test(suite: &Suite, names: &[&str]) -> Command {
    let mut command = cargo();
    command.args(["test", "--locked", "--no-fail-fast"]);
    command.args(&suite.arguments);
    let gated = names.iter().find_map(|name| {
        let name = format!("{}::{name}", suite.name);
        let test = TESTS.iter().find(|test| test.name == name)?;
        test.feature.clone()
    });
    if let Some(feature) = suite.feature.clone().or(gated) {
        command.args(["--features", &feature]);
    }
    command
}

/// A line of the harness, `test module::name ... ok`, of one of these tests or of its cases.
fn result(line: &str, names: &[&str]) -> Option<(String, bool)> {
    let (name, result) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let name = name.trim_end_matches(" - should panic");
    let is_case = |of: &str| {
        name.strip_prefix(of)
            .is_some_and(|rest| rest.starts_with("::"))
    };
    let passed = match result {
        "ok" => true,
        "FAILED" => false,
        _ => return None,
    };
    let own = names.iter().find(|own| name == **own || is_case(own))?;
    Some(((*own).to_owned(), passed))
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String, WorkshopError> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|source| WorkshopError::Run {
            program: "git".to_owned(),
            source,
        })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(WorkshopError::Failed {
        command: format!("git {}", arguments.join(" ")),
        output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_suites_are_the_last() {
        let tests = [
            "e2e::a",
            "install::b",
            "unit::c",
            "crds::d",
            "policy::e",
            "model::f",
        ];
        let tests = tests.map(str::to_owned).into();
        let order: Vec<&str> = by_suite(&tests)
            .iter()
            .map(|(suite, _)| suite.name.as_str())
            .collect();
        assert_eq!(order, ["policy", "unit", "crds", "e2e", "install"]);
        assert!(
            SLOW.iter()
                .all(|slow| SUITES.iter().any(|suite| suite.name == *slow))
        );
    }

    #[test]
    fn a_test_s_result_and_those_of_its_cases_are_read() {
        let names = ["a::b", "c"];
        let read = |line| result(line, &names);
        assert_eq!(read("test a::b ... ok"), Some(("a::b".to_owned(), true)));
        assert_eq!(
            read("test a::b::case_1_x ... FAILED"),
            Some(("a::b".to_owned(), false))
        );
        for other in [
            "test a::bb ... FAILED",
            "test c ... ignored",
            "a::b ... ok",
            "test result: FAILED. 1 passed",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
