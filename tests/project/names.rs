//! Names that can be read at one look.

use test_support::source::suites::TESTS;

/// Longest name of a test, in characters.
const LONGEST: usize = 60;

#[test]
fn test_names_have_at_most_60_characters() {
    let long: Vec<_> = TESTS
        .iter()
        .filter(|test| test.name.rsplit("::").next().unwrap().len() > LONGEST)
        .map(|test| format!("{}:{}: {}", test.file, test.line, test.name))
        .collect();
    assert!(TESTS.len() > 1000, "{} tests are known", TESTS.len());
    assert!(
        long.is_empty(),
        "shorten the names of these tests:\n{}",
        long.join("\n")
    );
}
