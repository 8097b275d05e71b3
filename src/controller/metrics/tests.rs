#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::{Phase, Reason};
use crate::controller::CountRequests;

use super::{
    catalogue::{
        GROUPS, Kind, METHODS, Metric, NOT_READY, OPERATIONS, OTHER, PANIC, PHASES, STALLED,
    },
    *,
};

fn all() -> impl Iterator<Item = &'static Metric> {
    GROUPS
        .iter()
        .flat_map(|group| group.metrics.iter().copied())
}

/// Name and label names of every series, without `le`.
fn series(text: &str) -> Vec<(String, Vec<String>)> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let read = |line: &str| {
        let (name, rest) = line.split_once(['{', ' ']).unwrap();
        let labels = rest.split_once('}').map_or("", |(labels, _)| labels);
        let names = labels
            .split("\",")
            .filter_map(|label| label.split_once('='));
        let names = names.map(|(name, _)| name.to_owned()).filter(|n| n != "le");
        (name.to_owned(), names.collect())
    };
    samples.map(read).collect()
}

fn metrics() -> Arc<Metrics> {
    let metrics = Arc::new(Metrics::new());
    metrics.set_leader("run-operator", false);
    metrics
}

/// Proves: P-metrics
#[test]
fn registered_metrics_match_the_catalogue() {
    let text = metrics().encode().unwrap();
    let mut shown: BTreeMap<String, BTreeSet<Vec<String>>> = BTreeMap::new();
    for (name, labels) in series(&text) {
        let histogram = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|s| name.strip_suffix(s));
        let name = histogram.unwrap_or(&name).to_owned();
        shown.entry(name).or_default().insert(labels);
    }
    for metric in all() {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        // OpenMetrics names a counter without the suffix of its series.
        let family = metric.name.strip_suffix("_total").unwrap_or(metric.name);
        let head = format!("# HELP {family} {}.\n# TYPE {family} {kind}\n", metric.help);
        assert!(text.contains(&head), "{head}");
        let labels: Vec<String> = metric.labels.iter().map(|l| l.name.to_owned()).collect();
        let series = shown.remove(metric.name);
        assert_eq!(series, Some(BTreeSet::from([labels])), "{}", metric.name);
        assert_eq!(
            metric.kind == Kind::Counter,
            metric.name.ends_with("_total")
        );
    }
    assert!(shown.is_empty(), "registered and not declared: {shown:?}");
}

/// Proves: P-metrics
#[test]
fn every_series_is_at_zero_before_anything_has_happened() {
    let text = metrics().encode().unwrap();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let counted = samples.filter(|line| !line.ends_with(" 0") && !line.ends_with(" 0.0"));
    let told: Vec<_> = counted
        .filter(|line| !line.starts_with("process_"))
        .collect();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        told,
        [format!(
            "run_operator_build_info{{version=\"{version}\"}} 1"
        )]
    );
}

#[test]
fn the_known_values_of_labels_are_those_of_the_code() {
    let operations = Operation::ALL.map(Operation::as_str);
    assert_eq!(operations, OPERATIONS);
    let phase = |name: &&str| serde_json::from_value::<Phase>((*name).into()).is_ok();
    assert!(PHASES.iter().all(phase));
    let reasons: BTreeSet<&str> = Reason::ALL.iter().map(|r| r.as_str()).collect();
    for reason in STALLED.iter().chain(NOT_READY) {
        assert!(*reason == OTHER || reasons.contains(reason), "{reason}");
    }
}

/// Proves: P-metrics
#[test]
fn a_panic_is_an_error_and_a_conflict_looks_again() {
    let metrics = Metrics::new();
    for result in [
        ReconcileResult::Success,
        ReconcileResult::RequeueAfter,
        ReconcileResult::Conflict,
        ReconcileResult::Error("no_answer"),
        ReconcileResult::Error(PANIC),
    ] {
        metrics.reconciled("run", result, Duration::from_millis(1));
    }
    let results = ["success", "requeue_after", "error", "requeue"];
    let counts = results.map(|result| metrics.reconciles.of(&["run", result]).get());
    assert_eq!(counts, [1, 2, 2, 0]);
    for reason in ["no_answer", PANIC] {
        assert_eq!(metrics.reconcile_errors.of(&["run", reason]).get(), 1);
    }
    assert_eq!(metrics.reconcile_panics.of(&["run"]).get(), 1);
    assert_eq!(metrics.conflicts.of(&["run"]).get(), 1);
    assert_eq!(metrics.reconcile_seconds.of(&["run"]).count(), 5);
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
        let outcome = Outcome {
            http_status,
            error: None,
            elapsed: Duration::from_millis(1),
        };
        metrics.on_answer(Operation::CreateRun, &outcome);
    }
    let counts = ["201", NO_ANSWER].map(|code| metrics.requests.of(&["createRun", code]).get());
    assert_eq!(counts, [1, 1]);
    assert_eq!(metrics.request_seconds.of(&["createRun"]).count(), 2);
}

/// An API server's answer: this status, or none.
#[derive(Clone)]
struct Answers(Option<u16>);

impl tower::Service<http::Request<()>> for Answers {
    type Response = http::Response<()>;
    type Error = ();
    type Future = std::future::Ready<Result<http::Response<()>, ()>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), ()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<()>) -> Self::Future {
        let answer = self
            .0
            .map(|status| http::Response::builder().status(status).body(()));
        std::future::ready(answer.ok_or(()).map(Result::unwrap))
    }
}

/// Proves: P-metrics
#[tokio::test]
async fn requests_are_counted_by_status_and_abandoned_ones_as_errors() {
    use tower::{Layer, Service};

    let metrics = Arc::new(Metrics::new());
    let layer = CountRequests(Arc::clone(&metrics));
    let request = || http::Request::builder().method("PATCH").body(()).unwrap();
    for status in [Some(200), Some(409), None] {
        let answer = layer.layer(Answers(status)).call(request());
        let _ = answer.await;
    }
    drop(layer.layer(Answers(Some(200))).call(request()));
    let count = |code| metrics.api_requests.of(&["PATCH", code]).get();
    assert_eq!([count("200"), count("409"), count(NO_ANSWER)], [1, 1, 2]);
    assert!(METHODS.contains(&"PATCH"));
}
