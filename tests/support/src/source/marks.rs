//! The marks at the tests: a line `// Proves: R1, S-paths` directly above a test's attributes, or among them.

use std::collections::{BTreeMap, BTreeSet};

use super::files;
use super::suites::{TESTS, Test};

const START: &str = "// Proves: ";
const FORM: &str = "`// Proves: R1, S-paths`";

/// The tests that prove each statement.
pub type Proofs = BTreeMap<String, BTreeSet<String>>;

/// The marks of all source files, and what is wrong with them. `ids` are those of the statements.
pub fn all(ids: &BTreeSet<&str>) -> (Proofs, Vec<String>) {
    let mut proofs = Proofs::new();
    let mut problems = Vec::new();
    for file in files::ending("rs") {
        let tests: Vec<&Test> = TESTS.iter().filter(|test| test.file == *file).collect();
        problems.extend(of(file, &files::text(file), &tests, ids, &mut proofs));
    }
    (proofs, problems)
}

/// Adds the marks of a file, which has these tests. Returns what is wrong with them.
fn of(
    file: &str,
    text: &str,
    tests: &[&Test],
    ids: &BTreeSet<&str>,
    proofs: &mut Proofs,
) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut problems = Vec::new();
    let mut marked = BTreeSet::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| is_mark(line)) {
        let mut wrong = |what: String| problems.push(format!("{file}:{}: {what}", index + 1));
        let Some(listed) = line.trim().strip_prefix(START) else {
            wrong(format!(
                "no mark of a test; write {FORM}, in a line of its own"
            ));
            continue;
        };
        let own = |test: &&&Test| (above(test, &lines)..test.line).contains(&(index + 1));
        let proving: Vec<&&Test> = tests.iter().filter(own).collect();
        let Some(first) = proving.first() else {
            wrong("this mark stands at no test; put it directly above a test's attributes".into());
            continue;
        };
        if first.ignored {
            wrong("an ignored test proves nothing; mark the one that runs it".into());
        }
        if !marked.insert(first.line) {
            wrong("a second mark of this test; put its ids into the first".into());
        }
        let mut own = BTreeSet::new();
        for id in listed.split(", ") {
            if !ids.contains(id) {
                wrong(format!(
                    "no document defines {id:?}; write {FORM}, with ids that exist"
                ));
            } else if !own.insert(id) {
                wrong(format!("names {id} twice; keep one"));
            } else {
                let names = proving.iter().map(|test| test.name.clone());
                proofs.entry(id.to_owned()).or_default().extend(names);
            }
        }
    }
    problems
}

/// Whether a line has a mark, however it is spelt: a comment, in no quotes, with the word and the colon.
fn is_mark(line: &str) -> bool {
    let before = line.split_once("Proves:").map(|(before, _)| before);
    before.is_some_and(|before| before.contains("//") && !before.contains(['"', '`']))
}

/// The first line of the comments directly above a test's attributes, or of these.
fn above(test: &Test, lines: &[&str]) -> usize {
    let before = lines.get(..test.first - 1).unwrap_or_default();
    let comments = before.iter().rev();
    let comments = comments.take_while(|line| line.trim_start().starts_with("//"));
    test.first - comments.count()
}

#[test]
fn a_mark_is_read_above_a_tests_attributes_and_among_them() {
    let text = "/// Documented.\n// Proves: R1, S-paths\n#[test]\nfn one() {}\n\n// Proves: R1\n// More.\n\
                #[test]\nfn two() {}\n";
    let tests = [
        test("a::one", 1, 4),
        test("b::one", 1, 4),
        test("a::two", 8, 9),
    ];
    let (proofs, problems) = read(text, &tests);
    assert!(problems.is_empty(), "{problems:?}");
    let both = BTreeSet::from(["a::one", "b::one"].map(str::to_owned));
    assert_eq!(proofs["S-paths"], both);
    assert_eq!(proofs["R1"].len(), 3);
}

#[test]
fn a_mark_of_a_wrong_form_place_or_id_is_found() {
    let mark = "// Proves: ";
    let cases = [
        ("R1, R1\n#[test]\nfn", "names R1 twice"),
        ("R99\n#[test]\nfn", "defines \"R99\""),
        ("R1.\n#[test]\nfn", "defines \"R1.\""),
        ("R1,S-paths\n#[test]\nfn", "defines \"R1,S-paths\""),
        ("\n#[test]\nfn", "write `// Proves: R1, S-paths`"),
        ("R1\n// Proves: S-paths\n#[test]\nfn", "a second mark"),
        ("R1\n\n#[test]\nfn", "at no test"),
    ];
    for (rest, problem) in cases {
        let text = format!("{mark}{rest}");
        let line = text.lines().count();
        let (_, problems) = read(&text, &[test("a::one", line - 1, line)]);
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        assert!(problems[0].starts_with("file.rs:"), "{problems:?}");
        assert!(problems[0].contains(problem), "{problems:?}");
    }
}

#[test]
fn a_mark_is_distinguished_from_words_and_quotes() {
    for mark in [
        "//Proves: R1",
        "    /// Proves: R1",
        "#[test] // Proves: R1",
    ] {
        assert!(is_mark(mark), "{mark}");
        let (proofs, problems) = read(mark, &[]);
        assert!(proofs.is_empty() && problems.len() == 1, "{problems:?}");
    }
    for other in [
        "// It proves: nothing",
        "\"// Proves: R1\"",
        "// As `// Proves: R1`",
    ] {
        assert!(!is_mark(other), "{other}");
    }
}

#[cfg(test)]
fn test(name: &str, first: usize, line: usize) -> Test {
    let (name, file) = (name.to_owned(), "file.rs".to_owned());
    Test {
        name,
        file,
        first,
        line,
        ignored: false,
        random: false,
        feature: None,
    }
}

#[cfg(test)]
fn read(text: &str, tests: &[Test]) -> (Proofs, Vec<String>) {
    let mut proofs = Proofs::new();
    let ids = BTreeSet::from(["R1", "S-paths"]);
    let tests: Vec<&Test> = tests.iter().collect();
    let problems = of("file.rs", text, &tests, &ids, &mut proofs);
    (proofs, problems)
}
