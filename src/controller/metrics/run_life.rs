//! The metrics of a Run's life: how long it waits and lasts, and how it ends. With `--metrics-namespace-label` they
//! have the Run's namespace as `run_namespace`: Prometheus gives the label `namespace` to the operator's own.

use std::borrow::Cow;

use crate::api::Phase;
use crate::decide::milestones::{ENDS, Milestones};

use super::{Metrics, RunLabels, labels};

fn of(namespace: Option<&str>, fixed: &[(&'static str, &'static str)]) -> RunLabels {
    let fixed = fixed.iter().map(|(name, value)| (*name, Cow::from(*value)));
    let namespace = namespace.map(|name| ("run_namespace", Cow::from(name.to_owned())));
    namespace.into_iter().chain(fixed).collect()
}

fn of_end((outcome, reason): (&'static str, &'static str)) -> [(&'static str, &'static str); 2] {
    [("outcome", outcome), ("reason", reason)]
}

impl Metrics {
    #[must_use]
    pub fn with_namespaces(self, namespace_label: bool) -> Self {
        Self {
            namespace_label,
            ..self
        }
    }

    /// `namespace`: the Run's.
    pub fn reached(&self, namespace: &str, new: &Milestones) {
        let namespace = Some(namespace).filter(|_| self.namespace_label);
        if let Some(waited) = new.waited {
            // A namespace is known from its first submission on.
            self.begin_lives(namespace);
            let seconds = self.submission_wait.get_or_create(&of(namespace, &[]));
            seconds.observe(waited.as_secs_f64());
        }
        let Some(end) = &new.end else { return };
        let outcome = end.outcome.as_str();
        let finished = of(namespace, &of_end((outcome, end.reason.as_str())));
        self.runs_finished.get_or_create(&finished).inc();
        if let Some(took) = end.took {
            let ended = of(namespace, &[("outcome", outcome)]);
            let seconds = self.run_seconds.get_or_create(&ended);
            seconds.observe(took.as_secs_f64());
        }
        if let Some(lag) = end.lag {
            let seconds = self.end_lag.get_or_create(&labels([]));
            seconds.observe(lag.as_secs_f64());
        }
    }

    pub(super) fn begin_lives(&self, namespace: Option<&str>) {
        for (outcome, reason) in ENDS {
            let finished = of_end((outcome.as_str(), reason.as_str()));
            self.runs_finished
                .get_or_create_owned(&of(namespace, &finished));
        }
        for outcome in Phase::ALL.iter().filter(|phase| phase.terminal()) {
            let ended = of(namespace, &[("outcome", outcome.as_str())]);
            self.run_seconds.get_or_create_owned(&ended);
        }
        self.submission_wait
            .get_or_create_owned(&of(namespace, &[]));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::api::Reason;
    use crate::controller::metrics::tests::shows;
    use crate::decide::milestones::RunEnd;

    use super::*;

    fn ended() -> Milestones {
        Milestones {
            waited: None,
            end: Some(RunEnd {
                outcome: Phase::Failed,
                reason: Reason::DeadlineExceeded,
                took: Some(Duration::from_mins(10)),
                lag: Some(Duration::from_millis(20)),
            }),
        }
    }

    fn submitted() -> Milestones {
        Milestones {
            waited: Some(Duration::from_secs(3)),
            end: None,
        }
    }

    /// Proves: P-metrics
    #[test]
    fn a_life_is_counted_with_its_outcome_and_without_its_namespace() {
        let metrics = Metrics::new();
        metrics.reached("team", &submitted());
        metrics.reached("team", &ended());
        shows(
            &metrics,
            &[
                r#"run_operator_runs_finished_total{outcome="Failed",reason="DeadlineExceeded"} 1"#,
                r#"run_operator_runs_finished_total{outcome="Failed",reason="Failed"} 0"#,
                r#"run_operator_run_duration_seconds_bucket{le="300.0",outcome="Failed"} 0"#,
                r#"run_operator_run_duration_seconds_bucket{le="900.0",outcome="Failed"} 1"#,
                r"run_operator_submission_wait_seconds_sum{} 3.0",
                r#"run_operator_end_lag_seconds_bucket{le="0.025"} 1"#,
            ],
        );
        assert!(!metrics.encode().unwrap().contains("run_namespace"));
    }

    /// Proves: P-metrics
    #[test]
    fn a_namespace_that_is_a_label_begins_at_zero_with_its_first_submission() {
        let metrics = Metrics::new().with_namespaces(true);
        metrics.reached("team", &submitted());
        let failed = |count: u8| {
            let labels = r#"run_namespace="team",outcome="Failed",reason="DeadlineExceeded""#;
            format!("run_operator_runs_finished_total{{{labels}}} {count}")
        };
        shows(&metrics, &[&failed(0)]);
        metrics.reached("team", &ended());
        shows(
            &metrics,
            &[
                &failed(1),
                r#"run_operator_submission_wait_seconds_count{run_namespace="team"} 1"#,
                r#"run_operator_run_duration_seconds_count{run_namespace="team",outcome="Failed"} 1"#,
                r"run_operator_end_lag_seconds_count{} 1",
            ],
        );
    }
}
