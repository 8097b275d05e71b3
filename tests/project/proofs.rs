//! What ships has nothing of the feature `proofs`.

use std::collections::BTreeMap;

use serde_json::Value;

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

// Proves: L-proofs
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

// Proves: L-proofs
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
