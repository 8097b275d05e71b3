#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::controller::CountRequests;

use super::*;

pub(super) fn shows(metrics: &Metrics, lines: &[&str]) {
    let text = metrics.encode().unwrap();
    let shown: BTreeSet<&str> = text.lines().collect();
    for line in lines {
        assert!(shown.contains(line), "{line}: {text}");
    }
}

/// Proves: P-metrics
#[test]
fn every_metric_has_a_series_and_is_at_zero_before_anything_has_happened() {
    let metrics = Metrics::new();
    metrics.set_leader("run-operator", false);
    let text = metrics.encode().unwrap();
    assert!(text.ends_with("\n# EOF\n"));
    let mut families = text.split("# HELP ");
    assert_eq!(families.next(), Some(""));
    let version = env!("CARGO_PKG_VERSION");
    let build = format!("run_operator_build_info{{version=\"{version}\"}} 1");
    for family in families {
        let samples = family.lines().skip(1).filter(|l| !l.starts_with('#'));
        let samples: Vec<&str> = samples.collect();
        assert!(!samples.is_empty(), "{family}");
        for sample in samples {
            let zero = sample.ends_with(" 0") || sample.ends_with(" 0.0");
            let of_the_process = sample.starts_with("process_") || sample == build;
            assert!(zero || of_the_process, "{sample}");
        }
    }
}

/// Proves: P-metrics
#[test]
fn a_panic_is_an_error_and_a_conflict_looks_again() {
    let metrics = Metrics::new();
    for result in [SUCCESS, REQUEUE_AFTER, CONFLICT, "no_answer", PANIC] {
        metrics.reconciled("run", result, Duration::from_millis(1));
    }
    shows(
        &metrics,
        &[
            r#"controller_runtime_reconcile_total{controller="run",result="success"} 1"#,
            r#"controller_runtime_reconcile_total{controller="run",result="requeue_after"} 2"#,
            r#"controller_runtime_reconcile_total{controller="run",result="error"} 2"#,
            r#"controller_runtime_reconcile_total{controller="run",result="requeue"} 0"#,
            r#"controller_runtime_reconcile_errors_total{controller="run",reason="no_answer"} 1"#,
            r#"controller_runtime_reconcile_errors_total{controller="run",reason="panic"} 1"#,
            r#"controller_runtime_reconcile_panics_total{controller="run"} 1"#,
            r#"run_operator_write_conflicts_total{controller="run"} 1"#,
            r#"controller_runtime_reconcile_time_seconds_count{controller="run"} 5"#,
        ],
    );
}

/// Proves: P-metrics
#[test]
fn a_status_that_http_does_not_have_makes_no_series_of_its_own() {
    let code = |status| code(Some(status));
    assert_eq!([code(200), code(599)], ["200", "599"]);
    assert_eq!([code(600), code(999), code(0)], ["other", "other", "other"]);
}

/// Proves: P-metrics
#[test]
fn a_call_to_the_service_without_an_answer_is_counted_as_none() {
    let metrics = Metrics::new();
    for http_status in [Some(201), None] {
        metrics.ended(Operation::CreateRun, http_status, Duration::from_millis(1));
    }
    shows(
        &metrics,
        &[
            r#"run_operator_service_requests_total{operation="createRun",code="201"} 1"#,
            r#"run_operator_service_requests_total{operation="createRun",code="none"} 1"#,
            r#"run_operator_service_request_duration_seconds_count{operation="createRun"} 2"#,
        ],
    );
}

/// Proves: P-metrics
#[tokio::test]
async fn requests_are_counted_by_status_and_abandoned_ones_as_none() {
    use tower::{Layer, Service, service_fn};

    let metrics = Arc::new(Metrics::new());
    let layer = CountRequests(Arc::clone(&metrics));
    let request = || http::Request::builder().method("PATCH").body(()).unwrap();
    // An API server that answers with this status, or not.
    let server = |status: Option<u16>| {
        service_fn(move |_: http::Request<()>| {
            let answer = status.map(|status| http::Response::builder().status(status).body(()));
            std::future::ready(answer.ok_or(()).map(Result::unwrap))
        })
    };
    for status in [Some(200), Some(409), None] {
        let _ = layer.layer(server(status)).call(request()).await;
    }
    drop(layer.layer(server(Some(200))).call(request()));
    shows(
        &metrics,
        &[
            r#"run_operator_api_requests_total{method="PATCH",code="200"} 1"#,
            r#"run_operator_api_requests_total{method="PATCH",code="409"} 1"#,
            r#"run_operator_api_requests_total{method="PATCH",code="none"} 2"#,
        ],
    );
}
