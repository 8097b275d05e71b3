//! The tables of `docs/metrics.md`, from the metrics that are registered. What stands above and below them is written by
//! hand.

use std::fmt::Write as _;

use run_operator::controller::metrics::catalogue::{GROUPS, Group, Kind, Label, Metric};
use test_support::root;

use super::Generated;
use crate::common::{Outcome, read};

const PAGE: &str = "docs/metrics.md";
/// The first section behind the tables.
const BEHIND: &str = "\n## Queries\n";

/// The page.
pub(super) fn page() -> Outcome<Vec<Generated>> {
    let mut sections = String::new();
    for group in GROUPS {
        section(&mut sections, group);
    }
    let text = read(&root().join(PAGE))?;
    let missing = || format!("{PAGE} has no section {}", BEHIND.trim());
    let (_, behind) = text.split_once(BEHIND).ok_or_else(missing)?;
    super::page(PAGE, &format!("{sections}{BEHIND}{behind}"))
}

fn section(page: &mut String, group: &Group) {
    let _ = write!(page, "\n## {}\n", group.title);
    if !group.about.is_empty() {
        let _ = writeln!(page, "{}\n", wrapped(group.about));
    }
    page.push_str("| metric | type | labels | meaning |\n|---|---|---|---|\n");
    for metric in group.metrics {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {}. |",
            metric.name,
            kind(metric),
            labels(metric),
            metric.help
        );
    }
}

/// A paragraph in lines as long as those of the other documents.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut line = lines.pop().unwrap_or_default();
        if line.chars().count() + 1 + word.chars().count() > 120 {
            lines.push(std::mem::take(&mut line));
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        lines.push(line);
    }
    lines.join("\n")
}

fn kind(metric: &Metric) -> &'static str {
    match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram(_) => "histogram",
    }
}

/// The labels, each with its values. The version changes with each release and is left out.
fn labels(metric: &Metric) -> String {
    if metric.labels.is_empty() {
        return "–".to_owned();
    }
    let one = |label: &Label| {
        let known = label.known.iter().map(|value| format!("`{value}`"));
        let known = known.filter(|_| label.name != "version");
        let others = (!label.others.is_empty()).then(|| label.others.to_owned());
        let values: Vec<String> = known.chain(others).collect();
        let values = values.join(", ");
        match values.as_str() {
            "" => format!("`{}`", label.name),
            values => format!("`{}`: {values}", label.name),
        }
    };
    let all: Vec<String> = metric.labels.iter().map(one).collect();
    all.join("<br>")
}
