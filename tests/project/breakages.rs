//! Each statement can be broken on purpose: `cargo xtask breakages` tries it, hours later. Here it is seen that the edits
//! still fit the sources.

use std::collections::BTreeSet;

use test_support::source::{breakages, proofs};

#[test]
fn every_statement_has_a_breakage_that_fits_the_sources() {
    let all = breakages::all();
    let mut problems = breakages::problems(&all);
    let statements = proofs::all().unwrap();
    let broken: BTreeSet<&str> = all.iter().map(|breakage| breakage.id.as_str()).collect();
    // One without a test has nothing that could notice.
    let tested = statements.iter().filter(|proved| !proved.tests.is_empty());
    let tested: BTreeSet<&str> = tested.map(|proved| proved.statement.id.as_str()).collect();
    let folder = breakages::FOLDER;
    problems.extend(
        tested
            .difference(&broken)
            .map(|id| format!("{id}: {folder} has no edit that makes it untrue; add one")),
    );
    problems.extend(
        broken.difference(&tested).map(|id| {
            format!("{id}: {folder} breaks it, and it has no test, or no document has it")
        }),
    );
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
