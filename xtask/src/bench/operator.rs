//! The operator as a process.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use test_cluster::{Output, Process, free_port};
use tokio::time::sleep;

use super::error::BenchError;
use super::usage::Usage;

/// Time for it to be ready, and to end.
const PATIENCE: Duration = Duration::from_mins(5);
/// Interval of asking whether it is ready.
const POLL: Duration = Duration::from_millis(20);

/// A running operator. Dropping it ends it.
pub(super) struct Operator {
    process: Process,
    port: u16,
}

impl Operator {
    /// Starts it and waits until it is ready; returns how long that took.
    pub(super) async fn start(
        mut command: Command,
        log: PathBuf,
    ) -> Result<(Self, Duration), BenchError> {
        let port = free_port()?;
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        let began = Instant::now();
        let process = Process::spawn(&command, Output::File(log))?;
        let mut operator = Self { process, port };
        let http = reqwest::Client::new();
        loop {
            let answer = http.get(operator.url("readyz")).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return Ok((operator, began.elapsed()));
            }
            let ended = operator.process.exit_code();
            if ended.is_some() || began.elapsed() > PATIENCE {
                return Err(BenchError::Wait {
                    what: "the operator is ready",
                    after: began.elapsed(),
                    seen: operator.log(),
                });
            }
            sleep(POLL).await;
        }
    }

    /// Ends it in order.
    pub(super) async fn stop(mut self) -> Result<(), BenchError> {
        self.process.terminate();
        if self.process.wait_exit(PATIENCE).await.is_none() {
            return Err(BenchError::Wait {
                what: "the operator has ended",
                after: PATIENCE,
                seen: self.log(),
            });
        }
        Ok(())
    }

    /// Kills it.
    pub(super) fn kill(mut self) {
        self.process.kill9();
    }

    /// What it has used until now.
    pub(super) fn usage(&self) -> Result<Usage, BenchError> {
        Usage::of(self.process.pid())
    }

    /// Reads its metrics; returns how long that took.
    pub(super) async fn scrape(&self) -> Result<Duration, BenchError> {
        let began = Instant::now();
        let answer = reqwest::get(self.url("metrics")).await;
        let text = match answer {
            Ok(answer) => answer.text().await,
            Err(error) => Err(error),
        };
        match text {
            Ok(text) if text.contains("run_operator_runs") => Ok(began.elapsed()),
            Ok(text) => Err(BenchError::Unexpected(format!("the metrics {text}"))),
            Err(error) => Err(BenchError::Unexpected(format!("the metrics: {error}"))),
        }
    }

    /// The end of its log.
    pub(super) fn log(&self) -> String {
        self.process.log_tail()
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }
}
