//! The parts of `make prove`: a row for each in docs/reliability.md, and a page for each with all of its figures.

use std::fmt::Write as _;

use test_support::figures::Kept;

use super::{Page, cell, kept, measured_on, of};
use crate::generate::{Generated, Outcome};

/// A part, and what a reader wants to know first.
struct Part {
    name: &'static str,
    title: &'static str,
    /// The rows of the summary, by their names.
    rows: &'static [&'static str],
}

const PARTS: [Part; 11] = [
    Part {
        name: "model",
        title: "Every state of a small world",
        rows: &[
            "Scenarios",
            "Distinct states",
            "Steps to the deepest of them",
        ],
    },
    Part {
        name: "rules",
        title: "Every rule is needed",
        rows: &[
            "Rules and guards taken away one at a time",
            "Missed by the model",
            "Rules and guards that the model can't miss",
        ],
    },
    Part {
        name: "points",
        title: "Wherever it stops",
        rows: &[
            "Points, each in its scenario",
            "Lives that ended as without the fault",
            "Lives that ended otherwise",
        ],
    },
    Part {
        name: "storms",
        title: "Storms",
        rows: &[
            "Seeds",
            "Objects",
            "Kills of an operator",
            "Runs of those that were left",
        ],
    },
    Part {
        name: "stale",
        title: "Old views of the cluster",
        rows: &[
            "Versions shown as the present",
            "After which service and objects were as before",
        ],
    },
    Part {
        name: "leader",
        title: "Two operators",
        rows: &[
            "Leaders that were stopped until another led, and then went on",
            "Calls and writes that they began when they went on",
        ],
    },
    Part {
        name: "soak",
        title: "A long life",
        rows: &[
            "Runs created and deleted",
            "Runs at the service",
            "Bytes of memory that each Run of the second half left in use",
        ],
    },
    Part {
        name: "size",
        title: "A hundred thousand Runs",
        rows: &[
            "Runs",
            "Runs that the service has made, all of which have ended",
            "Bytes that each Run added to the leader's memory",
        ],
    },
    Part {
        name: "fuzz",
        title: "What is read from outside",
        rows: &["Inputs tried", "Inputs that broke a property"],
    },
    Part {
        name: "breakages",
        title: "Every statement has a test that fails without it",
        rows: &[
            "Statements that were broken",
            "Breakages",
            "Not noticed, or not tried",
        ],
    },
    Part {
        name: "mutants",
        title: "Changes that a test must notice",
        rows: &["Mutants", "Explained", "Missed", "Not tried"],
    },
];

/// The table of the parts. Their pages are added to the files.
pub(super) fn summary(page: &Page, files: &mut Vec<Generated>) -> Outcome<String> {
    let mut text = String::from("\n| proof | figures | measured |\n|---|---|---|\n");
    for part in &PARTS {
        let figures = kept(page, part.name)?;
        let first = rows(part, &figures).join("; ");
        let mut measured: Vec<_> = figures
            .iter()
            .map(|(name, figures)| measured_on(name, figures))
            .collect();
        measured.dedup();
        if measured.is_empty() {
            measured.push("**Not measured yet.**".to_owned());
        }
        let Part { name, title, .. } = part;
        writeln!(
            text,
            "| [{title}](reliability/{name}.md) | {first} | {} |",
            cell(&measured.join(" "))
        )?;
        let details = of(page, name, files)?;
        files.push(Generated::new(
            format!("{}/{name}.md", page.figures),
            format!(
                "<!-- Written by `make generate` from what `make prove` has counted. Do not edit. -->\n# {title}: \
                 figures\n\nOf [reliability.md](../reliability.md), by `make prove PARTS={name}`.\n{}\n",
                details.trim_end()
            ),
        ));
    }
    text.push('\n');
    Ok(text)
}

/// The rows that a reader wants to know first; one that was introduced since the figures were measured is left out.
fn rows(part: &Part, figures: &[(String, Kept)]) -> Vec<String> {
    let all = || figures.iter().flat_map(|(_, figures)| &figures.rows);
    let row = |wanted: &&str| {
        let (what, value) = all().find(|(what, _)| what == wanted)?;
        Some(format!("{what}: {}", cell(value)))
    };
    part.rows.iter().filter_map(row).collect()
}
