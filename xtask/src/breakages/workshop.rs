//! A clone in which the program is broken, built and tried, one breakage after the other.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use test_support::source::breakages::Breakage;
use test_support::source::suites::Suite;
use test_support::{calling_cargo, cargo, root};

use super::commands::{LONG_LIMIT, output};
use super::ran::{Ran, Until, feature, outcome};
use super::trial::{Outcome, Trial};

#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkshopError {
    #[error("failed to run {program}")]
    Run { program: String, source: io::Error },
    #[error("{command} failed: {output}")]
    Failed { command: String, output: String },
    #[error("it can't be compiled: {0}")]
    NotCompiled(String),
    #[error("failed to read or write {}", file.display())]
    File { file: PathBuf, source: io::Error },
    #[error("a breakage no longer fits: {0}")]
    Apply(String),
}

/// A clone.
pub(super) struct Workshop {
    pub(super) tree: PathBuf,
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
        let outcome = match outcome(tests, |suite, names| self.ran(suite, names, Until::Failure)) {
            Err(WorkshopError::NotCompiled(why)) => Outcome::NotCompiled { why },
            other => other?,
        };
        git(&self.tree, &["checkout", "--quiet", "--force", "."])?;
        Ok(Trial::new(breakage, outcome, began.elapsed().as_secs()))
    }

    /// Runs tests of one suite on the program as it is: those that pass.
    pub(super) fn passing_unbroken(
        &self,
        suite: &Suite,
        names: &[&str],
    ) -> Result<BTreeSet<String>, WorkshopError> {
        Ok(self.ran(suite, names, Until::End)?.passed())
    }

    /// Where its commands' output goes.
    pub(super) fn log(&self) -> PathBuf {
        self.tree.with_extension("log")
    }

    /// Builds a suite and the programs that it runs.
    fn build(&self, suite: &Suite, names: &[&str]) -> Result<(), WorkshopError> {
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
            let printed = output(
                step.current_dir(&self.tree),
                &self.log(),
                LONG_LIMIT,
                |_| false,
            )?;
            let why = match printed.success {
                Some(true) => continue,
                Some(false) => printed.errors(),
                None => "the build did not end".to_owned(),
            };
            return Err(WorkshopError::NotCompiled(why));
        }
        Ok(())
    }

    fn ran(&self, suite: &Suite, names: &[&str], until: Until) -> Result<Ran, WorkshopError> {
        self.build(suite, names)?;
        let mut command = test(suite, names);
        command.arg("--").args(names).current_dir(&self.tree);
        Ran::of(&mut command, &self.log(), suite, names, until)
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
    if let Some(feature) = feature(suite, names) {
        command.args(["--features", &feature]);
    }
    command
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
