//! The operator as a process.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use test_cluster::{Output, Process, free_port};
use tokio::time::sleep;

use super::usage::Usage;
use crate::common::{Error, Outcome};

/// Time for it to be ready, and to end.
const PATIENCE: Duration = Duration::from_mins(5);
/// Interval of asking whether it is ready.
const POLL: Duration = Duration::from_millis(20);

/// A running operator. Dropping it ends it.
pub(super) struct Operator {
    process: Process,
    port: u16,
    http: reqwest::Client,
}

impl Operator {
    /// Starts it, with its log in this folder, and waits until it is ready; returns how long that took.
    pub(super) async fn start(mut command: Command, folder: &Path) -> Outcome<(Self, Duration)> {
        let port = free_port()?;
        let log = folder.join(format!("operator-{port}.log"));
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        // A connection that stays would be one of its open files.
        let http = reqwest::Client::builder().pool_max_idle_per_host(0);
        let http = http.build()?;
        let began = Instant::now();
        let process = Process::spawn(&command, Output::File(log))?;
        let mut operator = Self {
            process,
            port,
            http,
        };
        while operator.get("readyz").await.is_err() {
            if operator.process.exit_code().is_some() || began.elapsed() > PATIENCE {
                return Err(operator.never("the operator is ready"));
            }
            sleep(POLL).await;
        }
        Ok((operator, began.elapsed()))
    }

    /// Ends it in order.
    pub(super) async fn stop(mut self) -> Outcome<()> {
        self.process.terminate();
        match self.process.wait_exit(PATIENCE).await {
            Some(_) => Ok(()),
            None => Err(self.never("the operator has ended")),
        }
    }

    /// What it has used until now.
    pub(super) fn usage(&self) -> Outcome<Usage> {
        Usage::of(self.process.pid())
    }

    /// Reads its metrics; returns how long that took.
    pub(super) async fn scrape(&self) -> Outcome<Duration> {
        let began = Instant::now();
        let text = self.get("metrics").await?;
        if !text.contains("run_operator_runs") {
            return Err(format!("the metrics are not as expected: {text}").into());
        }
        Ok(began.elapsed())
    }

    /// The sum of a gauge's series, none of which is negative.
    pub(super) async fn sum(&self, metric: &str) -> Outcome<u64> {
        let text = self.get("metrics").await?;
        let value = |line: &str| {
            let rest = line.strip_prefix(metric)?;
            let is_series = rest.starts_with(['{', ' ']);
            let (_, value) = rest.rsplit_once(' ').filter(|_| is_series)?;
            value.parse::<u64>().ok()
        };
        Ok(text.lines().filter_map(value).sum())
    }

    /// The end of its log.
    pub(super) fn log(&self) -> String {
        self.process.log_tail()
    }

    fn never(&self, what: &str) -> Error {
        Error::Wait {
            what: what.to_owned(),
            after: PATIENCE,
            seen: self.log(),
        }
    }

    async fn get(&self, path: &str) -> reqwest::Result<String> {
        let url = format!("http://127.0.0.1:{}/{path}", self.port);
        let answer = self.http.get(url).send().await?;
        answer.error_for_status()?.text().await
    }
}
