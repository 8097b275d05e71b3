//! A version's section of the changelog.

use serde_json::{Value, json};
use test_support::root;

use crate::common::{Outcome, read};

/// The section of a version, without its heading.
pub(super) fn section(version: &str) -> Outcome<String> {
    let text = read(&root().join("CHANGELOG.md"))?;
    let missing = || {
        format!("CHANGELOG.md has no section [{version}] with content: write it before the release")
    };
    Ok(of(&text, version).ok_or_else(missing)?)
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
    let mut plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
    while let Some((before, after)) = plain.split_once("](")
        && let Some((start, words)) = before.rsplit_once('[')
        && let Some((_, rest)) = after.split_once(')')
    {
        plain = format!("{start}{words}{rest}");
    }
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
