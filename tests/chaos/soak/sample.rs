//! The operator's resources at one moment, by its own metrics and by the kernel.

use crate::support::{Operator, series};
use test_support::proc::number;

/// One moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Resident memory without what is mapped from files, in KiB.
    pub(crate) memory: u64,
    /// Open file descriptors.
    pub(crate) files: u64,
    pub(crate) threads: u64,
    /// Asynchronous tasks.
    pub(crate) tasks: u64,
    /// Runs of which something is remembered.
    pub(crate) remembered: u64,
    pub(crate) streams: u64,
    /// Reconciles that wait, calls that wait and calls in flight.
    pub(crate) pending: u64,
}

impl Sample {
    pub(crate) async fn of(operator: &Operator) -> Self {
        let counted = Counted::of(operator).await;
        let sum = |name: &str| counted.sum(name, &[]);
        let pending = ["workqueue_depth", "run_operator_calls_waiting"];
        let pending = pending.into_iter().chain(["run_operator_calls_in_flight"]);
        // Only Linux has them.
        let status = |name| number(operator.pid(), "status", name).unwrap_or_default();
        Self {
            memory: status("RssAnon"),
            files: sum("process_open_fds"),
            threads: status("Threads"),
            tasks: sum("run_operator_tasks"),
            remembered: sum("run_operator_remembered_runs"),
            streams: sum("run_operator_open_streams"),
            pending: pending.map(sum).sum(),
        }
    }

    /// True if nothing is left of deleted Runs.
    pub(crate) fn quiet(&self) -> bool {
        (self.remembered, self.streams, self.pending) == (0, 0, 0)
    }

    /// A row of the table.
    pub(crate) fn row(&self, wave: &str, runs: u64) -> Vec<String> {
        let mebibytes = format!(
            "{:.2}",
            f64::from(u32::try_from(self.memory).unwrap()) / 1024.0
        );
        let counts = [self.files, self.threads, self.tasks, self.remembered];
        let first = [wave.to_owned(), runs.to_string(), mebibytes];
        first
            .into_iter()
            .chain(counts.map(|count| count.to_string()))
            .collect()
    }
}

/// The head of the table.
pub(crate) const COLUMNS: [&str; 7] = [
    "after wave",
    "Runs until then",
    "memory in use, MiB",
    "open files",
    "threads",
    "tasks",
    "Runs remembered",
];

/// The series of `/metrics`.
pub(crate) struct Counted(Vec<crate::support::Series>);

impl Counted {
    pub(crate) async fn of(operator: &Operator) -> Self {
        let (status, text) = operator.fetch("metrics").await.unwrap();
        assert_eq!(status, 200, "{text}");
        Self(series(&text))
    }

    /// The sum of a metric's series that have these labels.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let fits = |series: &&crate::support::Series| {
            let has = |(label, value): &(&str, &str)| {
                series.labels.get(*label).map(String::as_str) == Some(*value)
            };
            series.name == name && labels.iter().all(has)
        };
        let sum: f64 = self.0.iter().filter(fits).map(|series| series.value).sum();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counts and sizes: whole, not negative, far below 2^53"
        )]
        let sum = sum.round() as u64;
        sum
    }
}
