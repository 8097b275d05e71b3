//! `kubectl runs events`, and `submit --follow`: the service's events, as the status keeps them.

use std::time::Duration;

use run_operator::api::names;
use run_operator::api::status::EventRecord;
use run_operator::decide::explain::verdict::Goal;

use crate::cli::OutputFormat;
use crate::cli::runs::EventsArgs;

use super::cluster::Cluster;
use super::exit::{End, RunsError};
use super::object::Seen;
use super::print::out;
use super::progress::Progress;
use super::wait::{self, Patience, Watcher};

pub(super) async fn run(cluster: &Cluster, args: &EventsArgs) -> Result<End, RunsError> {
    let run = cluster.run(&args.name).await?;
    if args.follow {
        return follow(cluster, &run, args.timeout, args.output).await;
    }
    let mut printed = Printed::new(args.output);
    printed.seen(&run)?;
    if printed.events == 0 {
        eprintln!("No events of {} yet.", run.name());
    }
    Ok(End::Succeeded)
}

/// Prints events until the run has ended.
pub(super) async fn follow(
    cluster: &Cluster,
    run: &Seen,
    timeout: Option<Duration>,
    format: OutputFormat,
) -> Result<End, RunsError> {
    let patience = Patience {
        goal: Goal::Succeeded,
        timeout,
        output: None,
    };
    // Between lines of events a line can't be written over.
    wait::one(
        cluster,
        run,
        patience,
        Progress::lines(),
        Printed::new(format),
    )
    .await
}

/// The events that were printed, by their number.
struct Printed {
    format: OutputFormat,
    events: usize,
}

impl Printed {
    fn new(format: OutputFormat) -> Self {
        Self { format, events: 0 }
    }

    fn line(&self, event: &EventRecord) -> String {
        match self.format {
            OutputFormat::Json => serde_json::to_string(event).unwrap_or_default(),
            OutputFormat::Text => {
                let data = event.data.as_deref().unwrap_or_default();
                let line = format!("{}  {}  {data}", event.time.0, event.kind);
                line.trim_end().to_owned()
            }
        }
    }
}

impl Watcher for Printed {
    /// Prints what came since the last version. Of more than a status keeps, it says how many are missing.
    fn seen(&mut self, run: &Seen) -> Result<(), RunsError> {
        let Some(status) = &run.status else {
            return Ok(());
        };
        let kept = status.events.len();
        let count = status.event_count.and_then(|n| usize::try_from(n).ok());
        let count = count.unwrap_or(kept).max(kept);
        let new = count.saturating_sub(self.events);
        let lost = new.saturating_sub(kept);
        if lost > 0 {
            eprintln!("({lost} earlier events are no longer kept)");
        }
        let lines = status.events.iter().skip(kept.saturating_sub(new));
        let lines: Vec<String> = lines.map(|event| self.line(event) + "\n").collect();
        self.events = count;
        out(&lines.concat())
    }

    /// The operator releases the object once the last events are in its status.
    fn is_complete(&self, run: &Seen) -> bool {
        let held = run.metadata.finalizers.iter().flatten();
        !held
            .into_iter()
            .any(|finalizer| finalizer == names::FINALIZER)
    }
}
