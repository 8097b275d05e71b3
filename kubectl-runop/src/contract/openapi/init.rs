//! A first contract file from a document. What is chosen by a name is a guess, and says so.

use std::collections::BTreeSet;
use std::fmt::Write;

use run_operator::api::Contract;
use run_operator::api::contract::{API_VERSION, KIND};

use super::check::{self, Review, named};
use super::document::{Document, parameter};

/// Names of a field, the likeliest first, in lower case and without marks.
const VERSION: [&str; 3] = ["version", "apiversion", "release"];
const ID: [&str; 3] = ["runid", "id", "uuid"];
const STATE: [&str; 3] = ["state", "status", "phase"];
const IDENTITY: [&str; 3] = ["id", "workspaceid", "name"];

/// The text of the file, which is laid over the built-in one.
pub(super) fn text(document: &Document, builtin: &Contract) -> String {
    let review = Review::new(document, builtin);
    let mut text = format!(
        "# A first contract file, made from the OpenAPI document {:?}, version {:?}.\n\
         # A comment that begins with \"Guess\" stands above a value that was chosen by its name: compare it with the \
         service.\n# What is left out has its built-in value, which `kubectl runop contract show` prints.\n\
         apiVersion: {API_VERSION}\nkind: {KIND}\n",
        document.text("/info/title"),
        document.text("/info/version"),
    );
    let version = document.text("/info/version");
    let mut section = Section::new("version");
    section.pointer(&review, check::VERSION, "pointers", &VERSION);
    if version.contains('*') || version.trim() != version || version.is_empty() {
        section.remark(&format!("accepted: {version:?} is no version"));
    } else {
        section.guess("accepted", &[version], "the document's own version");
    }
    text.push_str(&section.text());

    let own = review.path(check::GET).and_then(parameter).map(bare);
    let ids: Vec<&str> = own.as_deref().into_iter().chain(ID).collect();
    let mut section = Section::new("run");
    section.pointer(&review, check::CREATE, "idPointers", &ids);
    let states = section.pointer(&review, check::GET, "statePointers", &STATE);
    text.push_str(&section.text());
    let mut section = Section::new("event");
    section.pointer(&review, check::EVENTS, "statePointers", &STATE);
    text.push_str(&section.text());
    let mut section = Section::new("workspace");
    section.pointer(&review, check::WORKSPACE, "identityPointers", &IDENTITY);
    text.push_str(&section.text());

    let lists = builtin.in_force().states.lists();
    let lists = lists.map(|(name, words, _)| (name, words));
    text.push_str(&sorted("states", &states, &lists));
    let lists = builtin.in_force().codes.lists();
    let lists = lists.map(|(name, words, _)| (name, words));
    text.push_str(&sorted("codes", &review.codes(), &lists));
    text
}

/// Values of an enumeration, each in the list that has a word like it.
fn sorted<const N: usize>(
    section: &'static str,
    values: &BTreeSet<String>,
    lists: &[(&'static str, &[String]); N],
) -> String {
    let mut section = Section::new(section);
    if values.is_empty() {
        section.remark("the document enumerates none");
        return section.text();
    }
    let prefix = common(values);
    let mut rest = values.clone();
    for (name, words) in lists {
        let words: BTreeSet<String> = words.iter().map(|word| bare(word)).collect();
        let is_like = |value: &&String| {
            let word = value.get(prefix..).unwrap_or(value);
            words.contains(&bare(word)) && value.trim() == *value
        };
        let found: Vec<String> = values.iter().filter(is_like).cloned().collect();
        if !found.is_empty() {
            rest.retain(|value| !found.contains(value));
            section.guess(name, &found, "by their words");
        }
    }
    if !rest.is_empty() {
        let rest = rest.iter().map(|value| format!("{value:?}"));
        section.remark(&format!("in no list yet: {}", named(rest)));
    }
    section.text()
}

/// Bytes that all of several values begin with, to a mark: 7 of `STATUS_DONE` and `STATUS_FAILED`.
fn common(values: &BTreeSet<String>) -> usize {
    let (Some(first), Some(last)) = (values.first(), values.last()) else {
        return 0;
    };
    // In order, so that what the first and the last share, all share.
    let same = first.bytes().zip(last.bytes()).take_while(|(a, b)| a == b);
    let shared = first.get(..same.count()).unwrap_or_default();
    if first == last {
        return 0;
    }
    shared.rfind(['_', '-', '.', ':']).map_or(0, |at| at + 1)
}

/// A name as it is compared: `run_id` and `runID` are one.
fn bare(name: &str) -> String {
    let letters = name.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// A section of the file: its values, and what there is to say where there is none.
struct Section {
    name: &'static str,
    values: String,
    remarks: String,
}

impl Section {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            values: String::new(),
            remarks: String::new(),
        }
    }

    fn remark(&mut self, what: &str) {
        let _ = writeln!(self.remarks, "# {}: {what}.", self.name);
    }

    fn guess(&mut self, field: &str, values: &[String], why: &str) {
        let list = serde_json::to_string(values).unwrap_or_default();
        let _ = writeln!(self.values, "  # Guess: {why}.\n  {field}: {list}");
    }

    /// The field of an operation's answer whose name is the likeliest; of several the one that enumerates its values,
    /// then the one with the shortest pointer. Returns these values.
    fn pointer(
        &mut self,
        review: &Review<'_>,
        n: usize,
        field: &str,
        likely: &[&str],
    ) -> BTreeSet<String> {
        let mut scalars = review.scalars(n);
        let all = named(scalars.keys());
        let rank = |(pointer, values): (&String, &BTreeSet<String>)| {
            let name = bare(pointer.rsplit('/').next()?);
            let ends = likely.iter().any(|word| name.ends_with(word));
            let exact = likely.iter().position(|word| name == *word);
            let rank = exact.or(ends.then_some(likely.len()))?;
            let names = pointer.matches('/').count();
            Some(((rank, values.is_empty(), names), pointer.clone()))
        };
        let Some((_, best)) = scalars.iter().filter_map(rank).min() else {
            self.remark(&format!(
                "{field}: no name is like it; the answer has {all}"
            ));
            return BTreeSet::new();
        };
        let why = format!("by its name; the answer has {all}");
        self.guess(field, std::slice::from_ref(&best), &why);
        scalars.remove(&best).unwrap_or_default()
    }

    fn text(self) -> String {
        if self.values.is_empty() {
            return format!("\n{}", self.remarks);
        }
        format!("\n{}{}:\n{}", self.remarks, self.name, self.values)
    }
}
