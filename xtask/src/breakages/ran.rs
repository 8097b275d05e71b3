//! The run of a suite's marked tests, and what it says of a breakage.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use test_support::source::suites::{SUITES, Suite, TESTS};

use super::commands::{LIMIT, LONG_LIMIT, output};
use super::trial::Outcome;
use super::workshop::WorkshopError;

/// The suites that take long, the longest last. All others take seconds.
const SLOW: [&str; 5] = ["crds", "packaging", "e2e", "chaos", "install"];
/// It tries every state, which takes too long with each breakage, and has ablations of its own.
const LEFT_OUT: &str = "model";

/// When the run of a suite is over.
#[derive(Clone, Copy)]
pub(super) enum Until {
    /// One has failed: what the others do is not needed.
    Failure,
    End,
}

/// The run of a suite.
#[derive(Default)]
pub(super) struct Ran {
    /// Tests that have ended, with their suite, and whether each passed.
    results: Vec<(String, bool)>,
    /// Whether it was killed before its end.
    cut: bool,
}

impl Ran {
    /// Runs tests of a suite by a command that has these names as its last arguments.
    pub(super) fn of(
        command: &mut Command,
        log: &Path,
        suite: &Suite,
        names: &[&str],
        until: Until,
    ) -> Result<Self, WorkshopError> {
        let results = |text: &str| -> Vec<(String, bool)> {
            let read = text.lines().filter_map(|line| result(line, names));
            read.map(|(name, passed)| (format!("{}::{name}", suite.name), passed))
                .collect()
        };
        let failed = |text: &str| results(text).iter().any(|(_, passed)| !passed);
        let printed = match until {
            Until::Failure => output(command, log, LIMIT, failed)?,
            Until::End => output(command, log, LONG_LIMIT, |_| false)?,
        };
        Ok(Self {
            results: results(&printed.text),
            cut: printed.success.is_none(),
        })
    }

    /// Those of which nothing has failed.
    pub(super) fn passed(&self) -> BTreeSet<String> {
        let failed = self.failed();
        let passed = self.results.iter().filter(|(_, passed)| *passed);
        let names = passed.map(|(name, _)| name.clone());
        names.filter(|name| !failed.contains(name)).collect()
    }

    fn failed(&self) -> BTreeSet<String> {
        let failed = self.results.iter().filter(|(_, passed)| !passed);
        failed.map(|(name, _)| name.clone()).collect()
    }
}

/// Runs the suites of these tests from the fastest to the slowest, and none after one that has noticed it.
pub(super) fn outcome(
    tests: &BTreeSet<String>,
    run: impl Fn(&Suite, &[&str]) -> Result<Ran, WorkshopError>,
) -> Result<Outcome, WorkshopError> {
    let (mut of, mut hung) = (0, false);
    for (suite, names) in by_suite(tests) {
        let ran = run(suite, &names)?;
        of += ran.results.len();
        let tests = ran.failed();
        if !tests.is_empty() {
            return Ok(Outcome::Failed { tests, of });
        }
        hung |= ran.cut;
    }
    Ok(match (of, hung) {
        (_, true) => Outcome::Hung,
        (0, false) => Outcome::NoTest,
        (of, false) => Outcome::Passed { of },
    })
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

/// The feature that a suite or one of these tests of it needs.
pub(super) fn feature(suite: &Suite, names: &[&str]) -> Option<String> {
    let gated = names.iter().find_map(|name| {
        let name = format!("{}::{name}", suite.name);
        let test = TESTS.iter().find(|test| test.name == name)?;
        test.feature.clone()
    });
    suite.feature.clone().or(gated)
}

/// Those of the tests that need this feature, or none.
pub(super) fn with_feature(tests: &BTreeSet<String>, wanted: Option<&str>) -> BTreeSet<String> {
    let own = by_suite(tests).into_iter().flat_map(|(suite, names)| {
        let own = names
            .into_iter()
            .filter(|name| feature(suite, &[name]).as_deref() == wanted);
        own.map(|name| format!("{}::{name}", suite.name))
    });
    own.collect()
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
