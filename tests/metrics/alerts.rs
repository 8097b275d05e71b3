//! `charts/run-operator/files/rules.yaml`: valid, each alert tried both ways, each with its page.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use test_support::tools;

use crate::{names, text};

const RULES: &str = "charts/run-operator/files/rules.yaml";
const TRIED: &str = "tests/metrics/alerts.yaml";
const PAGE: &str = "docs/alerts.md";

/// The rules for the owners of Runs, over what kube-state-metrics makes of them.
const TENANTS: &str = "charts/run-operator/files/tenant-rules.yaml";
const TENANTS_TRIED: &str = "tests/metrics/tenant-alerts.yaml";

/// One alert.
#[derive(Deserialize)]
pub(crate) struct Rule {
    alert: String,
    pub(crate) expr: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

pub(crate) fn rules() -> Vec<Rule> {
    rules_of(RULES)
}

fn rules_of(file: &str) -> Vec<Rule> {
    #[derive(Deserialize)]
    struct Group {
        rules: Vec<Rule>,
    }
    #[derive(Deserialize)]
    struct File {
        groups: Vec<Group>,
    }
    let file: File = serde_saphyr::from_str(&text(file)).unwrap();
    file.groups
        .into_iter()
        .flat_map(|group| group.rules)
        .collect()
}

/// Runs promtool, which must succeed, and returns what it says.
pub(crate) fn promtool(args: &[&str]) -> String {
    let output = tools::run("promtool", args, "");
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "promtool {args:?}: {said}");
    said
}

/// Proves: P-metrics
#[test]
fn prometheus_takes_the_alert_rules() {
    let said = promtool(&["check", "rules", "--lint=all", "--lint-fatal", RULES]);
    assert!(
        said.contains(&format!("SUCCESS: {} rules found", rules().len())),
        "{said}"
    );
}

/// Proves: P-metrics
#[test]
fn alerts_for_tenants_fire_when_they_should_and_end() {
    promtool(&["check", "rules", "--lint=all", "--lint-fatal", TENANTS]);
    promtool(&["test", "rules", TENANTS_TRIED]);
    let tried = text(TENANTS_TRIED);
    for Rule { alert, .. } in rules_of(TENANTS) {
        assert!(tried.contains(&format!("alertname: {alert}")), "{alert}");
    }
}

/// Proves: P-metrics
#[test]
fn no_alert_sums_the_cluster_away() {
    let rules = [RULES, TENANTS].map(rules_of).into_iter().flatten();
    let expressions: Vec<String> = rules.map(|rule| rule.expr).collect();
    for (expression, said) in expressions.iter().zip(names::parsed(&expressions)) {
        for grouping in said["groupings"].as_array().unwrap() {
            let labels = grouping["labels"].as_array().unwrap();
            assert!(labels.contains(&"cluster".into()), "{expression}");
        }
    }
}

/// Proves: P-metrics
#[test]
fn every_alert_fires_when_it_should_and_then_alone() {
    promtool(&["test", "rules", TRIED]);
    let tried: Value = serde_saphyr::from_str(&text(TRIED)).unwrap();
    let mut fired = BTreeSet::new();
    let mut quiet = BTreeSet::new();
    for case in tried["tests"].as_array().unwrap() {
        let looks = case["alert_rule_test"].as_array().unwrap();
        let names: BTreeSet<&str> = looks
            .iter()
            .map(|l| l["alertname"].as_str().unwrap())
            .collect();
        let loud = looks
            .iter()
            .any(|l| !l["exp_alerts"].as_array().unwrap().is_empty());
        let set = if loud { &mut fired } else { &mut quiet };
        set.extend(names.into_iter().map(str::to_owned));
    }
    let all: BTreeSet<String> = rules().into_iter().map(|rule| rule.alert).collect();
    assert_eq!(fired, all, "tried to fire");
    assert_eq!(quiet, all, "tried to keep quiet");
}

/// Proves: P-metrics
#[test]
fn series_of_the_alert_tests_exist_in_the_operator() {
    let tried: Value = serde_saphyr::from_str(&text(TRIED)).unwrap();
    let cases = tried["tests"].as_array().unwrap().iter();
    let series = cases.flat_map(|case| case["input_series"].as_array().unwrap());
    let series: Vec<String> = series
        .map(|s| s["series"].as_str().unwrap().to_owned())
        .collect();
    names::hold(&series);
}

/// Proves: P-metrics
#[test]
fn every_alert_has_a_severity_a_description_and_a_runbook_url() {
    for rule in rules() {
        let severity = rule.labels["severity"].as_str();
        assert!(
            ["critical", "warning"].contains(&severity),
            "{}",
            rule.alert
        );
        for part in ["summary", "description"] {
            assert!(rule.annotations[part].ends_with('.'), "{}", rule.alert);
        }
        let anchor = format!("{PAGE}#{}", rule.alert.to_lowercase());
        assert_eq!(rule.annotations["runbook_url"], anchor);
    }
}

/// Proves: P-metrics
#[test]
fn every_alert_has_its_page_and_every_page_its_alert() {
    let text = text(PAGE);
    let headings = text.lines().filter_map(|line| line.strip_prefix("### "));
    let documented: BTreeSet<&str> = headings.collect();
    let rules: Vec<Rule> = [RULES, TENANTS].into_iter().flat_map(rules_of).collect();
    let real: BTreeSet<&str> = rules.iter().map(|rule| rule.alert.as_str()).collect();
    assert_eq!(documented, real);
}
