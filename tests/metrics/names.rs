//! Every metric and label that an expression speaks of, held to what the operator shows from its start.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use run_operator::api::WorkspaceKey;
use run_operator::controller::metrics::Metrics;
use run_operator::decide::milestones::Milestones;
use serde_json::Value;

use test_support::tools;

use crate::{alerts, dashboard, text};

/// Labels that Prometheus gives to what it scrapes from a Pod; `cluster` where one looks at several.
const OF_THE_TARGET: [&str; 6] = ["cluster", "job", "namespace", "pod", "instance", "service"];

/// Those of an operator with each label that it may show.
fn with_every_label() -> Metrics {
    let metrics = Metrics::new().with_namespaces(true);
    metrics.set_leader("run-operator", true);
    metrics.begin_slots(&WorkspaceKey::own_default("team"));
    let submitted = Milestones {
        waited: Some(Duration::from_secs(1)),
        end: None,
    };
    metrics.reached("team", &submitted);
    metrics
}

/// Each series as Prometheus has it, with the labels of the target.
pub(crate) fn scraped(target: &str) -> Vec<String> {
    let text = with_every_label().encode().unwrap();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let named = samples.map(|line| {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let (labels, _) = labels.rsplit_once('}').unwrap();
        let comma = if labels.is_empty() { "" } else { "," };
        format!("{name}{{{labels}{comma}{target}}}")
    });
    named.collect()
}

/// Name of each series, and its labels.
pub(crate) fn series() -> BTreeMap<String, BTreeSet<String>> {
    let metrics = with_every_label();
    let text = metrics.encode().unwrap();
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(['{', ' ']).unwrap();
        let pairs = rest.split_once('}').map_or("", |(labels, _)| labels);
        let names = pairs.split(',').filter_map(|pair| pair.split_once('='));
        let names = names.map(|(name, _)| name).chain(OF_THE_TARGET);
        let labels: &mut BTreeSet<String> = all.entry(name.to_owned()).or_default();
        labels.extend(names.map(str::to_owned));
    }
    all
}

fn strings(value: &Value) -> Vec<String> {
    serde_json::from_value(value.clone()).unwrap()
}

/// The result of Prometheus's parser for each of the expressions.
pub(crate) fn parsed(expressions: &[String]) -> Vec<Value> {
    let lines: Vec<String> = expressions.iter().map(|e| e.replace('\n', " ")).collect();
    let output = tools::run("promql", &[], &(lines.join("\n") + "\n"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let said = String::from_utf8(output.stdout).unwrap();
    let said: Vec<Value> = said
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(said.len(), expressions.len());
    said
}

/// Fails where an expression names a metric that doesn't exist, or a label that the metric doesn't have.
/// Returns the metrics.
pub(crate) fn hold(expressions: &[String]) -> BTreeSet<String> {
    let series = series();
    let mut used = BTreeSet::new();
    for (expression, said) in expressions.iter().zip(parsed(expressions)) {
        let with_labels = |name: &str, labels: &Value| {
            let Some(known) = series.get(name) else {
                panic!("there is no metric {name:?}: {expression}");
            };
            for label in strings(labels) {
                let is_one = known.contains(&label);
                assert!(is_one, "{name} has no label {label}: {expression}");
            }
        };
        for selector in said["selectors"].as_array().unwrap() {
            let name = selector["metric"].as_str().unwrap();
            with_labels(name, &selector["labels"]);
            used.insert(name.to_owned());
        }
        for grouping in said["groupings"].as_array().unwrap() {
            for name in strings(&grouping["metrics"]) {
                with_labels(&name, &grouping["labels"]);
            }
        }
    }
    used
}

/// Each type of a metric is in it; the suite `e2e` has what an operator serves.
/// Proves: P-metrics
#[test]
fn prometheus_reads_every_series() {
    let metrics = with_every_label();
    metrics.reconciled("run", "conflict", Duration::from_millis(5));
    let text = metrics.encode().unwrap();
    let said = tools::run("promql", &["openmetrics"], &text);
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{errors}");
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    let read: usize = String::from_utf8(said.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert_eq!(read, series);
}

/// Proves: P-metrics
#[test]
fn every_metric_and_label_of_the_alert_rules_exists() {
    let expressions: Vec<String> = alerts::rules()
        .iter()
        .map(|rule| rule.expr.clone())
        .collect();
    assert!(expressions.len() > 10);
    hold(&expressions);
}

/// Proves: P-metrics
#[test]
fn every_metric_and_label_of_the_dashboard_exists() {
    let used = hold(&dashboard::expressions());
    assert!(used.len() > 20, "{used:?}");
}

/// Proves: P-metrics
#[test]
fn every_query_of_the_documentation_can_be_asked() {
    for page in ["docs/metrics.md", "docs/alerts.md"] {
        let text = text(page);
        let blocks = text.split("```promql\n").skip(1);
        let queries: Vec<String> = blocks
            .map(|block| block.split("```").next().unwrap().trim().to_owned())
            .collect();
        assert!(queries.len() > 3, "{page}: {queries:?}");
        hold(&queries);
    }
}

/// Proves: P-metrics
#[test]
#[should_panic(expected = "there is no metric \"run_operator_run\"")]
fn a_metric_that_does_not_exist_is_found() {
    hold(&["sum(rate(run_operator_run[5m]))".to_owned()]);
}

/// Proves: P-metrics
#[test]
#[should_panic(expected = "run_operator_runs has no label state")]
fn a_label_that_does_not_exist_is_found() {
    hold(&["sum by (state) (run_operator_runs)".to_owned()]);
}
