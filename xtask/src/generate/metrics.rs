//! The rows of the tables of `docs/metrics.md`, from what the operator shows. All else on the page is written by hand, the
//! name in each row too: it says which metric stands where.

use std::collections::{BTreeMap, BTreeSet};

use run_operator::api::{Reason, WorkspaceKey, WorkspaceRef};
use run_operator::controller::metrics::Metrics;
use test_support::root;

use super::Generated;
use crate::common::{Outcome, read};

const PAGE: &str = "docs/metrics.md";
/// Labels whose values say nothing: the version of the day, the name of a Lease, a namespace; or the page says them once.
const WITHOUT_VALUES: [&str; 5] = [
    "version",
    "name",
    "workspace_namespace",
    "controller",
    "kind",
];

/// The page.
pub(super) fn page() -> Outcome<Vec<Generated>> {
    let metrics = Metrics::new();
    metrics.set_leader("run-operator", false);
    for reference in [
        WorkspaceRef::own_default(),
        WorkspaceRef::shared("shared".to_owned()),
    ] {
        metrics.begin_slots(&WorkspaceKey::of(&reference, "team"));
    }
    let text = metrics.encode().map_err(|error| error.to_string())?;
    let mut rows = rows(&text);
    let mut page = String::new();
    for line in read(&root().join(PAGE))?.lines() {
        let name = line.strip_prefix("| `").and_then(|row| row.split_once('`'));
        match name {
            Some((name, _)) => {
                let unknown = || format!("{PAGE}: there is no metric {name}");
                page.push_str(&rows.remove(name).ok_or_else(unknown)?);
            }
            None => page.push_str(line),
        }
        page.push('\n');
    }
    if let Some(name) = rows.keys().next() {
        return Err(format!("{PAGE}: a row with `{name}` is missing").into());
    }
    Ok(vec![(PAGE.into(), page)])
}

/// The row of each metric, by the name of its series.
fn rows(exposition: &str) -> BTreeMap<String, String> {
    let row = |family: &str| {
        let mut lines = family.lines();
        let (family, help) = lines.next()?.split_once(' ')?;
        let kind = lines.next()?.rsplit_once(' ')?.1;
        let name = match kind {
            "counter" => format!("{family}_total"),
            "info" => format!("{family}_info"),
            _ => family.to_owned(),
        };
        let labels = labels(lines.filter(|line| !line.starts_with('#')));
        let row = format!("| `{name}` | {kind} | {labels} | {help} |");
        Some((name, row))
    };
    exposition.split("# HELP ").filter_map(row).collect()
}

/// The labels of one metric's series, each with its values.
fn labels<'a>(series: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in series {
        let labels = line
            .split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'));
        let labels = labels.map_or("", |(labels, _)| labels).split(',');
        for (name, value) in labels.filter_map(|label| label.split_once('=')) {
            if name == "le" {
                continue;
            }
            if !names.contains(&name) {
                names.push(name);
            }
            values
                .entry(name)
                .or_default()
                .insert(value.trim_matches('"'));
        }
    }
    let one = |name: &&str| {
        let values = values.get(name).into_iter().flatten();
        let values: Vec<String> = values.map(|value| format!("`{value}`")).collect();
        if WITHOUT_VALUES.contains(name) {
            format!("`{name}`")
        } else if values.len() > Reason::ALL.len() {
            format!("`{name}`: [each of them](reasons.md), `Other`")
        } else {
            format!("`{name}`: {}", values.join(", "))
        }
    };
    let all: Vec<String> = names.iter().map(one).collect();
    all.join("<br>")
}
