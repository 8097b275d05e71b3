//! A version's section of the changelog.

use std::fs;

use serde_json::{Value, json};
use test_support::root;

use super::ReleaseError;

const CHANGELOG: &str = "CHANGELOG.md";

/// The section of a version, without its heading.
pub(super) fn section(version: &str) -> Result<String, ReleaseError> {
    let path = root().join(CHANGELOG);
    let text = fs::read_to_string(&path).map_err(ReleaseError::file(&path))?;
    of(&text, version).ok_or_else(|| ReleaseError::Changelog(version.to_owned()))
}

fn of(text: &str, version: &str) -> Option<String> {
    let heading = format!("## [{version}]");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&heading));
    lines.next()?;
    let section: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    let section = section.join("\n").trim().to_owned();
    (!section.is_empty()).then_some(section)
}

/// The section as Artifact Hub's `changes`: an entry for each item, of its heading's kind.
pub(super) fn changes(section: &str) -> Vec<Value> {
    let mut changes: Vec<(String, String)> = Vec::new();
    let mut kind = String::new();
    let mut open = false;
    for line in section.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            kind = heading.trim().to_lowercase();
            open = false;
        } else if let Some(item) = line.strip_prefix("- ") {
            changes.push((kind.clone(), item.to_owned()));
            open = true;
        } else if let Some((_, item)) = changes.last_mut().filter(|_| open) {
            let more = line.trim();
            if more.is_empty() {
                open = false;
            } else {
                item.push(' ');
                item.push_str(more);
            }
        }
    }
    let entry = |(kind, text): (String, String)| json!({"kind": kind, "description": plain(&text)});
    changes.into_iter().map(entry).collect()
}

/// Markdown as plain text: links by their words, no marks of code or emphasis.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        plain.push_str(before);
        let parts = link
            .split_once("](")
            .and_then(|(words, after)| Some((words, after.split_once(')')?.1)));
        let Some((words, after)) = parts else {
            plain.push('[');
            rest = link;
            continue;
        };
        plain.push_str(words);
        rest = after;
    }
    plain.push_str(rest);
    plain.replace(['`', '*'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-24\n\n### Changed\n- One\n  **more** \
        ([a page](docs/a.md)).\n- Two: `x[0]`.\n\n### Fixed\n- Three.\n\n## [0.1.0] - 2026-11-22\n- First.\n";

    #[test]
    fn a_section_ends_where_the_next_begins() {
        let section = of(TEXT, "0.2.0").unwrap_or_default();
        assert!(section.starts_with("### Changed"), "{section}");
        assert!(section.ends_with("- Three."), "{section}");
        assert_eq!(of(TEXT, "0.1.0").as_deref(), Some("- First."));
    }

    #[test]
    fn a_version_without_a_section_or_with_an_empty_one_has_none() {
        assert_eq!(of(TEXT, "0.3.0"), None);
        assert_eq!(of(TEXT, "Unreleased"), None);
    }

    #[test]
    fn each_item_is_a_change_of_its_heading_s_kind() {
        let changes = changes(&of(TEXT, "0.2.0").unwrap_or_default());
        let wanted = json!([
            {"kind": "changed", "description": "One more (a page)."},
            {"kind": "changed", "description": "Two: x[0]."},
            {"kind": "fixed", "description": "Three."},
        ]);
        assert_eq!(Value::from(changes), wanted);
    }
}
