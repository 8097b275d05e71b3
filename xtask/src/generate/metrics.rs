//! `docs/metrics.md`, from the metrics that are registered.

use std::fmt::Write as _;

use run_operator::controller::metrics::catalogue::{GROUPS, Group, Kind, Label, Metric};

const HEAD: &str = "\
<!-- Written by `make generate` from src/controller/metrics/catalogue.rs. -->
# Metrics

`/metrics` on the port of `--listen` (8080) has all of these, without credentials, or [over TLS](#over-tls) for those
who may get them. It is Prometheus's text format, or OpenMetrics where the scraper asks for it. Every series whose
labels are known beforehand exists from the start, at zero. No label is ever the name, namespace or uid of an object
other than the operator's own Lease, so the number of series is bounded.

The alert rules are in `charts/run-operator/files/rules.yaml`; [alerts.md](alerts.md) describes what to do about each. A
Grafana dashboard is in `charts/run-operator/files/dashboard.json`. Both are checked against this list.
";

const QUERIES: [(&str, &str); 6] = [
    (
        "Which Runs wait for a person, and why",
        "sum by (reason) (run_operator_runs_stalled) > 0",
    ),
    (
        "Share of calls that the service fails, by operation",
        "sum by (operation) (rate(run_operator_service_requests_total{code=~\"5..|none|other\"}[5m]))\n  \
         / sum by (operation) (rate(run_operator_service_requests_total[5m]))",
    ),
    (
        "How long 95 % of the submissions take at most",
        "histogram_quantile(0.95, sum by (le) \
         (rate(run_operator_service_request_duration_seconds_bucket{operation=\"createRun\"}[5m])))",
    ),
    (
        "How long 95 % of the objects wait for their reconcile at most",
        "histogram_quantile(0.95, sum by (name, le) (rate(workqueue_queue_duration_seconds_bucket[5m])))",
    ),
    (
        "Creates that the service accepted in the last day",
        "sum(increase(run_operator_service_requests_total{operation=\"createRun\",code=~\"2..\"}[1d]))",
    ),
    (
        "Requests to the API server that fail",
        "sum by (code, method) (rate(rest_client_requests_total{code!~\"2..\"}[5m])) > 0",
    ),
];

const OVER_TLS: &str = "
## Over TLS
With `metrics.secure.enabled` (`--metrics-listen`) the metrics have a port of their own, 8443, and a scraper needs the
token of a ServiceAccount that may get the path `/metrics`; [security.md](security.md#metrics-over-tls) has the rules.
The port of `--listen` then has only `/healthz` and `/readyz`, and answers `/metrics` with 404 and where it moved.

```yaml
metrics:
  secure:
    enabled: true
    # tls.crt and tls.key; with cert-manager, the secretName of a Certificate for
    # run-operator-metrics.run-operator.svc. Without it the certificate is self-signed.
    certSecretName: run-operator-metrics
    readers:
      - kind: ServiceAccount
        name: prometheus-k8s
        namespace: monitoring
  serviceMonitor:
    enabled: true
```
- **The ServiceMonitor** has Prometheus send the token of its own ServiceAccount and verify the certificate by `ca.crt`
  of the same Secret. A monitor reads only Secrets of its own namespace: in another one, set
  `metrics.secure.caSecret.name`. With a self-signed certificate nothing is verified (`insecureSkipVerify`).
- **A PodMonitor**, and a Prometheus that forbids monitors to name files, need the token in a Secret:
  `metrics.secure.tokenSecret.name`.
- **Other scrapers** need the ClusterRole `…-metrics-reader`, which the chart makes. To try it:
  `kubectl -n run-operator port-forward service/run-operator-metrics 8443`, and in a second terminal
  `curl -k -H \"Authorization: Bearer $(kubectl create token NAME)\" https://localhost:8443/metrics`.
- **A support bundle** has no metrics then: the API server, through which it asks, sends no token.
- `rest_client_requests_total` counts the operator's reviews among its requests.
";

const NOT_HERE: &str = "
## What is not here
- `workqueue_retries_total`: see [Work queues](#work-queues).
- `controller_runtime_terminal_reconcile_errors_total` and `_reconcile_timeouts_total`: the loops have no such errors.
- `certwatcher_*` and `controller_runtime_webhook_*`: there is no webhook.
- How long Runs take: their statuses have the times, and a histogram of them would be reset by each restart.
";

/// The page.
pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    for group in GROUPS {
        section(&mut page, group);
    }
    page.push_str("\n## Queries\n");
    for (what, query) in QUERIES {
        let _ = write!(page, "\n{what}:\n```promql\n{query}\n```\n");
    }
    page.push_str(OVER_TLS);
    page.push_str(NOT_HERE);
    page
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
            metric.help.replace("<error>", "`<error>`")
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
        if values.is_empty() {
            return format!("`{}`", label.name);
        }
        format!("`{}`: {}", label.name, values.join(", "))
    };
    let all: Vec<String> = metric.labels.iter().map(one).collect();
    all.join("<br>")
}
