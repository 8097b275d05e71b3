//! `charts/run-operator/files/dashboard.json`: fits any Grafana, and shows what exists.

use serde_json::Value;

use crate::{names, text};

fn dashboard() -> Value {
    serde_json::from_str(&text("charts/run-operator/files/dashboard.json")).unwrap()
}

fn panels() -> Vec<Value> {
    let panels = dashboard()["panels"].as_array().unwrap().clone();
    panels
        .into_iter()
        .filter(|panel| panel["type"] != "row")
        .collect()
}

/// Expression and legend of every target, with Grafana's variables filled in.
fn targets() -> Vec<(String, String)> {
    let fill = |text: &str| {
        text.replace("$__rate_interval", "5m")
            .replace("$__range", "6h")
    };
    let panels = panels();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let read = |target: &Value| {
        let text = |field: &str| target[field].as_str().unwrap().to_owned();
        (fill(&text("expr")), text("legendFormat"))
    };
    targets.map(read).collect()
}

pub(crate) fn expressions() -> Vec<String> {
    targets()
        .into_iter()
        .map(|(expression, _)| expression)
        .collect()
}

/// Proves: P-metrics
#[test]
fn every_label_of_a_legend_is_one_of_its_metrics() {
    let series = names::series();
    for (expression, legend) in targets() {
        let said = names::parsed(std::slice::from_ref(&expression)).remove(0);
        for label in legend
            .split("{{")
            .skip(1)
            .map(|l| l.split("}}").next().unwrap())
        {
            for selector in said["selectors"].as_array().unwrap() {
                let labels = &series[selector["metric"].as_str().unwrap()];
                assert!(labels.contains(label), "{legend}: {expression}");
            }
            let groupings = said["groupings"].as_array().unwrap();
            let kept = |g: &Value| g["labels"].as_array().unwrap().iter().any(|l| l == label);
            assert!(
                groupings.is_empty() || groupings.iter().any(kept),
                "{legend}: {expression}"
            );
        }
    }
}

/// Proves: P-metrics
#[test]
fn data_source_namespace_and_job_are_dashboard_variables() {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let variables: Vec<_> = variables
        .iter()
        .map(|v| v["name"].as_str().unwrap())
        .collect();
    assert_eq!(variables, ["datasource", "namespace", "job"]);
    for panel in panels() {
        let title = &panel["title"];
        let sources = panel["targets"].as_array().unwrap().iter().chain([&panel]);
        for source in sources {
            assert_eq!(source["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
    for expression in expressions() {
        let chosen = expression
            .matches("job=~\"$job\", namespace=~\"$namespace\"")
            .count();
        let metrics = names::parsed(std::slice::from_ref(&expression)).remove(0);
        assert_eq!(
            chosen,
            metrics["selectors"].as_array().unwrap().len(),
            "{expression}"
        );
    }
}
