//! A service's own OpenAPI document beside a contract file: what the operator relies on, a first contract file, and what
//! a change of the document means for Runs.

mod check;
mod document;
mod init;
mod schema;

use std::collections::BTreeSet;
use std::path::Path;

use run_operator::api::Contract;
use run_operator::api::contract::{CodeClass, StateClass};
use run_operator::checks::{Finding, Target, Trial, Verdict};
use run_operator::contract_file::read_up_to;
use run_operator::service::Operation;
use run_operator::util::{Failed, failed};

use check::Review;
pub(super) use document::Document;
use document::LARGEST;

use super::live::bounded;

/// Reads a document from a file, or from a URL by the rules for base URLs and without a token.
pub(super) async fn read(place: &str, trial: &Trial) -> Result<Document, Failed> {
    if !place.starts_with("http://") && !place.starts_with("https://") {
        return read_file(Path::new(place));
    }
    let target = Target::new("--openapi", place, trial)?;
    let what = format!("get the OpenAPI document {}", target.base_url);
    let answer = bounded(target.client.raw(Operation::Version, "", LARGEST)).await;
    let answer = answer.map_err(failed(what.clone()))?;
    let body = match (answer.status, answer.body) {
        (200..=299, Some(body)) => Ok(body),
        (200..=299, None) => Err(format!("it is larger than {LARGEST} bytes")),
        (status @ 300..=399, _) => Err(format!(
            "HTTP {status}; redirects are not followed: name the address that it leads to"
        )),
        (status, _) => Err(format!("HTTP {status}; download it, and name the file")),
    };
    let body = body.map_err(failed(what))?;
    let what = format!("use the OpenAPI document {}", target.base_url);
    Document::parse(&body).map_err(failed(what))
}

fn read_file(path: &Path) -> Result<Document, Failed> {
    let name = path.display();
    let bytes = read_up_to(path, LARGEST as u64);
    let bytes = bytes.map_err(failed(format!("read the OpenAPI document {name}")))?;
    Document::parse(&bytes).map_err(failed(format!("use the OpenAPI document {name}")))
}

impl Document {
    /// Its title and version.
    pub(super) fn name(&self) -> String {
        let words = ["/info/title", "/info/version"].map(|pointer| self.text(pointer));
        check::named([words.join(" ").trim()])
    }

    /// One finding for each statement about what the operator relies on.
    pub(super) fn findings(&self, contract: &Contract) -> Vec<Finding> {
        Review::new(self, contract).findings()
    }

    /// A first contract file.
    pub(super) fn first_contract(&self, builtin: &Contract) -> String {
        init::text(self, builtin)
    }
}

/// What a change of the document means for Runs: the findings that are others, each with the earlier one, and the
/// states and codes that came and went.
pub(super) fn diff(old: &Document, new: &Document, contract: &Contract) -> (Vec<String>, bool) {
    let [before, after] = [old, new].map(|document| Review::new(document, contract));
    let mut lines = Vec::new();
    let after_findings = after.findings();
    let good = after_findings.iter().all(|f| f.verdict != Verdict::Fail);
    for (was, is) in before.findings().iter().zip(after_findings) {
        if (was.verdict, &was.saw) != (is.verdict, &is.saw) {
            lines.push(is.to_string());
            lines.push(format!(
                "      {:<30}  {}: {}",
                "before", was.verdict, was.saw
            ));
        }
    }
    let state = |word: &String| match contract.state(word) {
        StateClass::Unmapped => "in no list: counts as active, also if it is an end".to_owned(),
        class => format!("{class:?}").to_lowercase(),
    };
    let code = |word: &String| match contract.code(word) {
        CodeClass::Unknown => "in no list: final and shown".to_owned(),
        class => format!("{class:?}"),
    };
    lines.extend(changes(
        "states",
        &before.states().0,
        &after.states().0,
        state,
    ));
    lines.extend(changes("codes", &before.codes(), &after.codes(), code));
    (lines, good)
}

fn changes(
    what: &str,
    before: &BTreeSet<String>,
    after: &BTreeSet<String>,
    meaning: impl Fn(&String) -> String,
) -> Vec<String> {
    let with_meaning = |word: &String| format!("{word:?} ({})", meaning(word));
    let mut lines = Vec::new();
    for (sign, how, some, others) in [("+", "new", after, before), ("-", "gone", before, after)] {
        let words: Vec<String> = some.difference(others).map(with_meaning).collect();
        if !words.is_empty() {
            let title = format!("{what} that are {how}");
            let words = check::named(words);
            lines.push(format!("{sign:<4}  {title:<30}  {words}."));
        }
    }
    lines
}
