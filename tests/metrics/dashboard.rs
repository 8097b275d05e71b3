//! `charts/run-operator/files/dashboard.json`: fits any Grafana, and shows what exists.

use serde_json::{Value, json};

use crate::{alerts, names, text};

const JOB: &str = "run-operator";
const NAMESPACE: &str = "ops";

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
            .replace("$job", JOB)
            .replace("$namespace", NAMESPACE)
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
            .matches(&format!("job=~\"{JOB}\", namespace=~\"{NAMESPACE}\""))
            .count();
        let metrics = names::parsed(std::slice::from_ref(&expression)).remove(0);
        assert_eq!(
            chosen,
            metrics["selectors"].as_array().unwrap().len(),
            "{expression}"
        );
    }
}

/// Prometheus evaluates each: with series that grow by one a minute, as an operator names them, none is empty.
/// Proves: P-metrics
#[test]
fn every_query_has_a_result() {
    let expressions = expressions();
    let name = |n: usize| format!("Query{n}");
    let rule = |(n, expression): (usize, &String)| {
        let filled = format!("count({expression}) > 0");
        json!({"alert": name(n), "expr": filled})
    };
    let look = |n: usize| json!({"alertname": name(n), "eval_time": "2h", "exp_alerts": [{"exp_labels": {}}]});
    let grows = |series: String| json!({"series": series, "values": "1+1x120"});
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, content: Value| {
        std::fs::write(folder.path().join(file), content.to_string()).unwrap();
    };
    let rules: Vec<Value> = expressions.iter().enumerate().map(rule).collect();
    write(
        "rules.yaml",
        json!({"groups": [{"name": "dashboard", "rules": rules}]}),
    );
    let target = format!("job=\"{JOB}\",namespace=\"{NAMESPACE}\",instance=\"a\"");
    let series: Vec<Value> = names::scraped(&target).into_iter().map(grows).collect();
    let looks: Vec<Value> = (0..expressions.len()).map(look).collect();
    let test = json!({"interval": "1m", "input_series": series, "alert_rule_test": looks});
    write(
        "test.yaml",
        json!({"rule_files": ["rules.yaml"], "tests": [test]}),
    );
    let test = folder.path().join("test.yaml");
    alerts::promtool(&["test", "rules", test.to_str().unwrap()]);
}
