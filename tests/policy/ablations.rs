//! Each rule of the design removed in turn: this suite, run again without it, must fail.

use std::{process::Command, sync::Once};

use run_operator::decide::invariants::{Rule, without};

use test_support::figures::Figures;
use test_support::source::suites::TESTS;

/// Names the rule that is taken away.
const WITHOUT: &str = "RUN_OPERATOR_WITHOUT";

/// Modules of random histories. What is counted here is noticed by a test of its own, which names what is wrong: those
/// with random inputs notice much, and are left out.
const RANDOM: [&str; 3] = ["properties::", "liveness::", "authorization::"];

/// Takes away the rule that the environment names, if it names one. Whatever is decided in these tests begins here.
pub(crate) fn begin() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let asked = std::env::var(WITHOUT).ok();
        without(asked.map(|name| rule(&name)));
    });
}

fn rule(name: &str) -> Rule {
    let found = Rule::ALL.iter().find(|rule| rule.name() == name);
    *found.unwrap_or_else(|| panic!("{WITHOUT}={name}: there is no such rule"))
}

/// The tests that fail without a rule; with `None` none is taken away.
fn failures(rule: Option<Rule>) -> Vec<String> {
    let mut suite = Command::new(std::env::current_exe().expect("this program"));
    let random = TESTS.iter().filter(|test| test.random);
    let random = random.filter_map(|test| test.name.strip_prefix("policy::"));
    for left_out in RANDOM.into_iter().chain(["ablations::"]).chain(random) {
        suite.args(["--skip", left_out]);
    }
    // That they fail is all that counts.
    suite.env("RUST_BACKTRACE", "0");
    if let Some(rule) = rule {
        suite.env(WITHOUT, rule.name());
    }
    let output = suite.output().expect("this suite");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("test result:"), "{rule:?}: {told}");
    let failed = |line: &str| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(name.to_owned())
    };
    told.lines().filter_map(failed).collect()
}

#[test]
fn each_rule_is_missed_by_a_test_when_it_is_taken_away() {
    assert_eq!(failures(None), Vec::<String>::new());
    let noticed: Vec<(Rule, Vec<String>)> = Rule::ALL
        .iter()
        .map(|rule| (*rule, failures(Some(*rule))))
        .collect();
    let row = |(rule, failed): &(Rule, Vec<String>)| {
        let words = [rule.name(), rule.says()].map(str::to_owned);
        words
            .into_iter()
            .chain([failed.len().to_string()])
            .collect()
    };
    let missed = noticed.iter().filter(|(_, failed)| !failed.is_empty());
    Figures::new("rules.policy")
        .row("Rules taken away one at a time", noticed.len())
        .row("Missed by a test of the suite `policy`", missed.count())
        .table(
            "Each rule taken away, by the tests of `policy` that fail without it (those with random inputs not counted)",
            &["rule", "what it says", "tests that fail"],
            noticed.iter().map(row).collect(),
        )
        .record();
    for (rule, failed) in &noticed {
        assert!(!failed.is_empty(), "nothing misses {}", rule.name());
    }
}
