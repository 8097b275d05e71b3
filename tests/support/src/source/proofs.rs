//! Each statement with the tests that prove it, or with the reason why there is none.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::files;
use super::marks::{self, Proofs};
use super::statements::{self, Statement};

const UNTESTED: &str = "tests/project/untested.yaml";
/// Letters that a reason for having no test must at least have.
const REASON: usize = 30;

/// A statement, and what proves it.
#[derive(Debug)]
pub struct Proved {
    pub statement: Statement,
    /// `suite::module::name`.
    pub tests: BTreeSet<String>,
    /// Why it, or a part of it, has no test.
    pub untested: Option<String>,
}

/// Why there is no test, as tests/project/untested.yaml has it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Reason {
    Whole(String),
    Part(String),
}

/// Every statement in the order of the documents, or all that is wrong, a line each.
pub fn all() -> Result<Vec<Proved>, String> {
    let (statements, mut problems) = statements::all();
    let ids = statements.iter().map(|s| s.id.as_str()).collect();
    let (proofs, wrong) = marks::all(&ids);
    problems.extend(wrong);
    let (proved, wrong) = match serde_saphyr::from_str(&files::text(UNTESTED)) {
        Ok(reasons) => joined(statements, proofs, reasons),
        Err(error) => (Vec::new(), vec![format!("{UNTESTED}: {error}")]),
    };
    problems.extend(wrong);
    if problems.is_empty() {
        return Ok(proved);
    }
    Err(problems.join("\n"))
}

/// The statements with their proofs and reasons, and what is missing or too much.
fn joined(
    statements: Vec<Statement>,
    mut proofs: Proofs,
    mut reasons: BTreeMap<String, Reason>,
) -> (Vec<Proved>, Vec<String>) {
    let mut proved = Vec::new();
    let mut problems = Vec::new();
    for statement in statements {
        let tests = proofs.remove(&statement.id).unwrap_or_default();
        let reason = reasons.remove(&statement.id);
        problems.extend(lack(&statement, tests.is_empty(), reason.as_ref()));
        proved.push(Proved {
            statement,
            tests,
            untested: reason.map(|(Reason::Whole(why) | Reason::Part(why))| why),
        });
    }
    let unknown = reasons.keys();
    problems.extend(unknown.map(|id| format!("{UNTESTED}: no document defines {id}; remove it")));
    (proved, problems)
}

/// What a statement lacks.
fn lack(statement: &Statement, no_test: bool, reason: Option<&Reason>) -> Option<String> {
    let Statement {
        id, document, line, ..
    } = statement;
    match (no_test, reason) {
        (true, None) => Some(format!(
            "{document}:{line}: {id} has no test; write `// Proves: {id}` directly above the attributes of one, \
             or why there can be none into {UNTESTED}"
        )),
        (true, Some(Reason::Part(_))) => Some(format!(
            "{UNTESTED}: {id} has no test; write `// Proves: {id}` above one, or call the reason `whole`"
        )),
        (false, Some(Reason::Whole(_))) => Some(format!(
            "{UNTESTED}: {id} has tests; remove the reason, or say what they leave out as `part`"
        )),
        (_, Some(Reason::Whole(why) | Reason::Part(why))) if why.len() < REASON => Some(format!(
            "{UNTESTED}: {id}: say plainly, in a sentence, why there is no test"
        )),
        _ => None,
    }
}

#[test]
fn a_missing_test_and_a_reason_that_does_not_fit_are_found() {
    let reasons = "tested: {whole: this reason is long enough for anybody}\n\
                   partly: {part: this reason is long enough for anybody}\n\
                   thin: {whole: later}\n\
                   reason: {whole: this reason is long enough for anybody}\n\
                   unknown: {whole: this reason is long enough for anybody}\n";
    let ids = ["plain", "none", "tested", "partly", "thin", "reason"];
    let statement = |id: &str| Statement {
        id: id.to_owned(),
        document: "d.md".to_owned(),
        line: 1,
        headings: Vec::new(),
        text: "One.".to_owned(),
    };
    let statements = ids.iter().map(|id| statement(id)).collect();
    let test = BTreeSet::from(["suite::test".to_owned()]);
    let proofs = ["plain", "tested"].map(|id| (id.to_owned(), test.clone()));
    let reasons = serde_saphyr::from_str(reasons).unwrap();
    let (proved, problems) = joined(statements, Proofs::from(proofs), reasons);
    assert_eq!(proved.len(), ids.len());
    let wanted = [
        "d.md:1: none has no test",
        "untested.yaml: tested has tests",
        "untested.yaml: partly has no test",
        "untested.yaml: thin: say plainly",
        "untested.yaml: no document defines unknown",
    ];
    assert_eq!(problems.len(), wanted.len(), "{problems:?}");
    for (problem, wanted) in problems.iter().zip(wanted) {
        assert!(problem.contains(wanted), "{problem}");
    }
}
