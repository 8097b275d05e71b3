//! What changed in a version, for the chart.

use std::process::Command;

use serde_json::{Value, json};
use test_cluster::run;
use test_support::root;

use crate::common::Outcome;

/// Artifact Hub's `changes` of a version: an entry for each item of the changelog, of its heading's kind.
pub(super) fn changes(version: &str) -> Outcome<Vec<Value>> {
    let mut section = Command::new(root().join(".ci/changelog"));
    section.arg(version);
    Ok(of(&run(section, "")?))
}

fn of(section: &str) -> Vec<Value> {
    let mut changes = Vec::new();
    for part in format!("\n{section}").split("\n### ") {
        let (kind, items) = part.split_once('\n').unwrap_or_default();
        for item in format!("\n{items}").split("\n- ").skip(1) {
            let item = item.split("\n\n").next().unwrap_or_default();
            let kind = kind.trim().to_lowercase();
            changes.push(json!({"kind": kind, "description": plain(item)}));
        }
    }
    changes
}

/// Markdown as plain text in one line: links by their words, no marks of code or emphasis.
fn plain(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    without_links(&line, "").replace(['`', '*'], "")
}

/// Markdown with the words of each link in place of the link, where its address begins so.
pub(super) fn without_links(text: &str, begins: &str) -> String {
    let mut text = text.to_owned();
    let address = format!("]({begins}");
    while let Some((before, after)) = text.split_once(&address)
        && let Some((start, words)) = before.rsplit_once('[')
        && let Some((_, rest)) = after.split_once(')')
    {
        text = format!("{start}{words}{rest}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_a_change_of_its_heading_s_kind() {
        let section = "### Changed\n- One\n  **more** ([a page](docs/a.md)).\n- Two: `x[0]`.\n\n### Fixed\n- Three.\n";
        let wanted = json!([
            {"kind": "changed", "description": "One more (a page)."},
            {"kind": "changed", "description": "Two: x[0]."},
            {"kind": "fixed", "description": "Three."},
        ]);
        assert_eq!(Value::from(of(section)), wanted);
    }

    #[test]
    fn only_links_to_the_address_are_taken_out() {
        let text = "See [this](../../docs/a.md), [that](#b) and [more](../../docs/c.md#d).";
        let wanted = "See this, [that](#b) and more.";
        assert_eq!(without_links(text, "../../"), wanted);
    }
}
