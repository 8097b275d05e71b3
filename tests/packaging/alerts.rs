//! The alerts as the chart renders them. What each does is in the suite `metrics`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::helm::{objects, the, with_file};

/// Each alert that is rendered, by its name.
fn alerts(objects: &[Value]) -> BTreeMap<&str, &Value> {
    let groups = the(objects, "PrometheusRule")["spec"]["groups"].as_array();
    let rules = groups.unwrap().iter().map(|group| &group["rules"]);
    let rules = rules.flat_map(|rules| rules.as_array().unwrap());
    rules
        .map(|rule| (rule["alert"].as_str().unwrap(), rule))
        .collect()
}

/// Proves: P-metrics
#[test]
fn every_alert_leads_to_its_page_by_an_absolute_address() {
    let enabled = "metrics.prometheusRule.enabled=true,metrics.prometheusRule.tenantAlerts=true";
    let usual = objects(&["--set", enabled]);
    let full = with_file("full");
    let of_the_project = "https://run-operator.dev/docs";
    for (rendered, documents) in [
        (&usual, of_the_project),
        (&full, "https://wiki.example.com/run-operator"),
    ] {
        for (name, alert) in alerts(rendered) {
            let address = format!("{documents}/alerts.md#{}", name.to_lowercase());
            assert_eq!(alert["annotations"]["runbook_url"], address);
        }
    }
}

/// Proves: I-values
#[test]
fn alerts_are_left_out_labelled_and_changed_by_their_names() {
    let usual = objects(&["--set", "metrics.prometheusRule.enabled=true"]);
    let usual = alerts(&usual);
    let full = with_file("full");
    let full = alerts(&full);
    assert!(usual.contains_key("RunOperatorThrottled") && !usual.contains_key("RunFailed"));
    assert!(!full.contains_key("RunOperatorThrottled") && full.contains_key("RunFailed"));
    for alert in full.values() {
        assert_eq!(alert["labels"]["team"], "platform");
        let dashboard = "https://grafana.example.com/d/run-operator";
        assert_eq!(alert["annotations"]["dashboard"], dashboard);
    }
    let before = usual["RunOperatorServiceErrors"]["expr"].as_str().unwrap();
    let changed = full["RunOperatorServiceErrors"];
    assert_eq!(changed["expr"], before.replace("> 0.2", "> 0.5"));
    assert_eq!(changed["for"], "30m");
    assert_eq!(changed["labels"]["severity"], "critical");
    let other = "RunOperatorApiErrors";
    assert_eq!(full[other]["expr"], usual[other]["expr"]);
}
