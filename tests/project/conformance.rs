//! `docs/conformance.md`: a row for every rule of `docs/service.md` and every promise of `docs/design.md`,
//! with the tests that prove it.
//!
//! A row is a bullet with the id in bold and the sentence; below it stand the tests, one a line, or a line
//! that begins with `No test:` and says plainly why.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::{files, suites::TESTS};

const FILE: &str = "docs/conformance.md";
const SOURCES: [&str; 2] = ["docs/service.md", "docs/design.md"];
/// Letters that a reason for having no test must at least have.
const REASON: usize = 30;

/// A row: the tests that it names, and why there is none.
#[derive(Debug, Default)]
struct Row {
    line: usize,
    tests: Vec<(usize, String)>,
    excuse: Option<String>,
}

/// The rows by their id, and what is wrong with the form.
fn rows(text: &str) -> (BTreeMap<String, Row>, Vec<String>) {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut current: Option<String> = None;
    for (line, text) in text.lines().enumerate().map(|(i, text)| (i + 1, text)) {
        if text.starts_with('#') {
            current = None;
        } else if let Some((id, _)) = text
            .strip_prefix("- **")
            .and_then(|rest| rest.split_once("**"))
        {
            let row = Row {
                line,
                ..Row::default()
            };
            if rows.insert(id.to_owned(), row).is_some() {
                wrong.push(format!("{FILE}:{line}: a second row for {id}; keep one"));
            }
            current = Some(id.to_owned());
        } else if let Some(item) = text.strip_prefix("  - ") {
            let Some(row) = current.as_ref().and_then(|id| rows.get_mut(id)) else {
                wrong.push(format!("{FILE}:{line}: belongs to no row"));
                continue;
            };
            if let Some(excuse) = item.strip_prefix("No test:") {
                row.excuse = Some(excuse.trim().to_owned());
            } else if let Some(test) = item
                .trim()
                .strip_prefix('`')
                .and_then(|t| t.strip_suffix('`'))
            {
                row.tests.push((line, test.to_owned()));
            } else {
                wrong.push(format!(
                    "{FILE}:{line}: neither `suite::module::name` nor \"No test: why\""
                ));
            }
        }
    }
    (rows, wrong)
}

/// The ids that a document defines: `<a id="R1"></a>`.
fn ids(text: &str) -> Vec<String> {
    let marks = text.split("<a id=\"").skip(1);
    marks
        .filter_map(|rest| rest.split_once('"'))
        .map(|(id, _)| id.to_owned())
        .collect()
}

/// What a row lacks.
fn lacks(id: &str, row: &Row, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut lacks = Vec::new();
    for (line, test) in &row.tests {
        if !exists(test) {
            lacks.push(format!(
                "{FILE}:{line}: {id} names {test}, which is no test{}",
                hint(test)
            ));
        }
    }
    match &row.excuse {
        None if row.tests.is_empty() => lacks.push(format!(
            "{FILE}:{}: {id} names no test; add one, or a line \"  - No test: why\"",
            row.line
        )),
        Some(excuse) if excuse.len() < REASON => lacks.push(format!(
            "{FILE}:{}: {id}: say plainly, in a sentence, why there is no test",
            row.line
        )),
        _ => {}
    }
    lacks
}

/// Where a test of that name stands, if it was moved.
fn hint(test: &str) -> String {
    let suite = test.split("::").next().unwrap_or_default();
    if !TESTS.contains_key(suite) {
        let suites: Vec<&str> = TESTS.keys().map(String::as_str).collect();
        return format!("; there is no suite {suite} among {}", suites.join(", "));
    }
    let name = test.rsplit("::").next().unwrap_or(test);
    let moved = TESTS
        .values()
        .flatten()
        .find(|t| t.rsplit("::").next() == Some(name));
    match moved {
        Some(path) => format!("; it is {path} now"),
        None => "; was it renamed?".to_owned(),
    }
}

fn exists(test: &str) -> bool {
    let suite = test.split("::").next().unwrap_or_default();
    TESTS.get(suite).is_some_and(|tests| tests.contains(test))
}

fn report(problems: &[String]) -> String {
    let mut text = format!("{} problems with {FILE}:\n", problems.len());
    for problem in problems {
        let _ = writeln!(text, "  {problem}");
    }
    text
}

#[test]
fn every_row_names_tests_that_exist_or_says_why_there_is_none() {
    let (rows, mut problems) = rows(&files::text(FILE));
    let mut by_line: Vec<(&String, &Row)> = rows.iter().collect();
    by_line.sort_by_key(|(_, row)| row.line);
    for (id, row) in by_line {
        problems.extend(lacks(id, row, exists));
    }
    assert!(problems.is_empty(), "{}", report(&problems));
}

#[test]
fn conformance_rows_match_the_rules_and_promises() {
    let (rows, _) = rows(&files::text(FILE));
    let mut problems = Vec::new();
    let mut defined = BTreeSet::new();
    for source in SOURCES {
        for id in ids(&files::text(source)) {
            if !rows.contains_key(&id) {
                problems.push(format!(
                    "{source} defines {id}, which has no row; add \"- **{id}** sentence\""
                ));
            }
            if !defined.insert(id.clone()) {
                problems.push(format!("{source} defines {id} a second time"));
            }
        }
    }
    for (id, row) in &rows {
        if !defined.contains(id) {
            problems.push(format!(
                "{FILE}:{}: {id} is defined neither in {}",
                row.line,
                SOURCES.join(" nor in ")
            ));
        }
    }
    assert!(problems.is_empty(), "{}", report(&problems));
}

/// The rules that the code's comments speak of by number.
#[test]
fn the_service_s_rules_endpoints_and_resources_are_all_there() {
    let defined: BTreeSet<String> = ids(&files::text("docs/service.md")).into_iter().collect();
    let rules = (1..=13).map(|n| format!("R{n}")).chain(["R10a".to_owned()]);
    let operations = [
        "getVersion",
        "getCurrentWorkspace",
        "createRun",
        "getRun",
        "streamRunEvents",
        "cancelRun",
    ];
    let resources = ["S-run", "S-workspace", "S-problem", "S-paths"];
    let wanted = rules
        .chain(operations.iter().map(|o| format!("E-{o}")))
        .chain(resources.iter().map(|&s| s.to_owned()));
    let missing: Vec<String> = wanted.filter(|id| !defined.contains(id)).collect();
    assert!(
        missing.is_empty(),
        "docs/service.md doesn't define {missing:?}"
    );
    let contract = files::text("contract/openapi.yaml");
    for operation in operations {
        assert!(
            contract.contains(&format!("operationId: {operation}\n")),
            "{operation}"
        );
    }
}

#[test]
fn a_row_with_no_test_a_thin_excuse_or_a_wrong_name_is_found() {
    let text = "# T\n- **A** one\n  - `s::there`\n- **B** two\n- **C** three\n  - No test: later\n\
                - **D** four\n  - `s::gone`\n- **A** again\n  - loose words\n";
    let (rows, wrong) = rows(text);
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    let lacking = |id: &str| lacks(id, &rows[id], |t| t == "s::there");
    for id in ["B", "C", "D"] {
        assert_eq!(lacking(id).len(), 1, "{id}");
    }
    let plain = Row {
        tests: vec![(1, "s::there".to_owned())],
        ..Row::default()
    };
    assert!(lacks("A", &plain, |t| t == "s::there").is_empty());
}
