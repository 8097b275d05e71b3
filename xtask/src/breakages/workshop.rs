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
/// Time for one build.
const BUILD_LIMIT: Duration = Duration::from_mins(30);
/// Of a compiler's output, what is kept.
const LINES: usize = 20;

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

    /// Breaks the program, and runs these tests.
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

    fn outcome(&self, tests: &BTreeSet<String>) -> Result<Outcome, WorkshopError> {
        let mut suites: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for test in tests {
            if let Some((suite, name)) = test.split_once("::") {
                suites.entry(suite).or_default().push(name);
            }
        }
        if suites.is_empty() {
            return Ok(Outcome::NoTest);
        }
        let (mut failed, mut of, mut hung) = (BTreeSet::new(), 0, false);
        for (name, names) in suites {
            let Some(suite) = SUITES.iter().find(|suite| suite.name == name) else {
                continue;
            };
            if let Some(why) = self.build(suite, &names)? {
                return Ok(Outcome::NotCompiled { why });
            }
            let ran = self.ran(suite, &names)?;
            hung |= ran.is_none();
            for (test, passed) in ran.into_iter().flatten() {
                of += 1;
                if !passed {
                    failed.insert(format!("{name}::{test}"));
                }
            }
        }
        Ok(match (failed.is_empty(), hung) {
            (false, _) => Outcome::Failed { tests: failed, of },
            (true, true) => Outcome::Hung,
            (true, false) => Outcome::Passed { of },
        })
    }

    /// Builds a suite and the programs that it runs; what the compiler says if it can't.
    fn build(&self, suite: &Suite, names: &[&str]) -> Result<Option<String>, WorkshopError> {
        let mut steps = vec![test(suite, names)];
        steps[0].arg("--no-run");
        let without_programs = ["unit", "policy", "project", "model"];
        if !without_programs.contains(&suite.name.as_str()) {
            let mut programs = cargo();
            programs.args(["build", "--locked", "--bins"]);
            steps.push(programs);
        }
        if suite.name == "install" {
            steps.push(images());
        }
        for mut step in steps {
            let Some(output) = self.output(&mut step, BUILD_LIMIT)? else {
                return Ok(Some("the build did not end".to_owned()));
            };
            if !output.success {
                return Ok(Some(output.errors()));
            }
        }
        Ok(None)
    }

    /// Runs tests of a suite: each, and whether it passed. `None` if they did not end in time.
    fn ran(
        &self,
        suite: &Suite,
        names: &[&str],
    ) -> Result<Option<Vec<(String, bool)>>, WorkshopError> {
        let mut command = test(suite, names);
        command.arg("--").args(names);
        let Some(output) = self.output(&mut command, LIMIT)? else {
            return Ok(None);
        };
        let lines = output.text.lines();
        Ok(Some(lines.filter_map(|line| result(line, names)).collect()))
    }

    /// Runs a command in the clone, at most so long: `None` if it did not end.
    fn output(
        &self,
        command: &mut Command,
        limit: Duration,
    ) -> Result<Option<Ended>, WorkshopError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |source| WorkshopError::Run {
            program: program.clone(),
            source,
        };
        // Tests may leave a process behind that holds a pipe open: a file ends with its command.
        let file = self.tree.with_extension("log");
        let log = File::create(&file).map_err(|source| WorkshopError::File {
            file: file.clone(),
            source,
        })?;
        let errors = log.try_clone().map_err(failed)?;
        command.current_dir(&self.tree).process_group(0);
        command.env_remove("CARGO_TARGET_DIR").env_remove("CI");
        command.env("CARGO_TERM_COLOR", "never");
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let mut child = command.spawn().map_err(failed)?;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break Some(status);
            }
            if began.elapsed() > limit {
                let group = format!("-{}", child.id());
                let kill = Command::new("kill").args(["-KILL", "--", &group]).status();
                kill.map_err(failed)?;
                child.wait().map_err(failed)?;
                break None;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let text = fs::read(&file).map_err(|source| WorkshopError::File { file, source })?;
        Ok(status.map(|status| Ended {
            success: status.success(),
            text: String::from_utf8_lossy(&text).into_owned(),
        }))
    }
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

/// A command that has ended.
struct Ended {
    success: bool,
    text: String,
}

impl Ended {
    /// What the compiler complains of.
    fn errors(&self) -> String {
        let from = self
            .text
            .lines()
            .skip_while(|line| !line.starts_with("error"));
        from.take(LINES).collect::<Vec<_>>().join("\n")
    }
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
