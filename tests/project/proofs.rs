//! The feature `proofs`: what ships has nothing of it, and the tests that only it compiles are run.

use std::collections::BTreeMap;

use serde_json::Value;
use test_support::source::suites::{TESTS, Test};

use crate::files;

const GATE: &str = "#[cfg(feature = \"proofs\")]";
/// What the proofs need inside the program, and the file that declares it.
const GATED: [(&str, &str); 3] = [
    ("src/lib.rs", "pub mod points;"),
    (
        "src/decide/invariants.rs",
        "pub use switch::{holds, without};",
    ),
    ("src/decide/invariants.rs", "mod switch {"),
];

/// Proves: L-proofs
#[test]
fn what_a_proof_needs_is_behind_the_feature() {
    for (file, declared) in GATED {
        let gated = format!("{GATE}\n{declared}");
        assert!(files::text(file).contains(&gated), "{file}: {declared}");
    }
}

/// The features of the operator, each with those that it turns on.
fn features() -> BTreeMap<String, Vec<String>> {
    let listed: Value = serde_json::from_slice(&test_support::metadata()).unwrap();
    let packages = listed["packages"].as_array().unwrap();
    let own = packages.iter().find(|p| p["name"] == "run-operator");
    serde_json::from_value(own.unwrap()["features"].clone()).unwrap()
}

/// Proves: L-proofs
#[test]
fn no_feature_of_what_ships_leads_to_the_proofs() {
    let features = features();
    assert!(features.contains_key("proofs"), "{features:?}");
    let mut on = vec!["default"];
    let mut next = 0;
    while let Some(feature) = on.get(next) {
        let more = features.get(*feature).into_iter().flatten();
        let more: Vec<&str> = more.map(String::as_str).collect();
        on.extend(more);
        next += 1;
    }
    assert!(!on.contains(&"proofs"), "{on:?}");
    let build = files::text(".ci/program");
    for named in ["--features", "--all-features", "-F "] {
        assert!(!build.contains(named), ".ci/program names {named}");
    }
}

/// Whether a command of `.ci/prove` runs a test: it names its suite, and a filter that lets the test through, or none.
fn runs(command: &str, test: &Test) -> bool {
    let (suite, name) = test.name.split_once("::").unwrap();
    let words: Vec<&str> = command.split_whitespace().collect();
    let pairs = || words.windows(2).map(|pair| (pair[0], pair[1]));
    let names_it = match suite {
        "unit" => words.contains(&"--lib"),
        // After `--test`, or as the function of the script with the name of the suite.
        _ => pairs().any(|(before, word)| {
            (before, word) == ("--test", suite) || before == suite && word.ends_with("::")
        }),
    };
    let (skipped, kept): (Vec<_>, Vec<_>) = pairs()
        .filter(|(_, word)| word.ends_with("::"))
        .partition(|(before, _)| *before == "--skip");
    let lets = |filters: &[(&str, &str)]| filters.iter().any(|(_, word)| name.starts_with(word));
    names_it && !lets(&skipped) && (kept.is_empty() || lets(&kept))
}

#[test]
fn every_test_that_only_the_proofs_compile_is_run_by_them() {
    let script = files::text(".ci/prove");
    // The body of a function that passes its arguments on names no test: its calls do.
    let commands = || script.lines().filter(|line| !line.contains("\"$@\""));
    let of_proofs = TESTS
        .iter()
        .filter(|test| test.feature.as_deref() == Some("proofs"));
    let (run, left): (Vec<_>, Vec<_>) =
        of_proofs.partition(|test| commands().any(|command| runs(command, test)));
    let left: Vec<&str> = left.iter().map(|test| test.name.as_str()).collect();
    assert!(!run.is_empty());
    assert!(
        left.is_empty(),
        ".ci/prove runs none of these, and nothing else compiles them: {left:#?}"
    );
}
