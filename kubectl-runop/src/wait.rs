//! `wait`, the waiting of `submit`, and `events`: one watch for each Run, by its uid.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use futures::{FutureExt, StreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watch_object};

use run_operator::api::{Phase, finalizer};
use run_operator::checks::Refused;
use run_operator::clock::wall;

use crate::args::{EventsArgs, Goal, ObjectFormat, WaitArgs};
use crate::cluster::Cluster;
use crate::error::{End, ToolError};
use crate::explain::{Outcome, outcome, state, summary};
use crate::print;
use crate::run::Run;

/// Longest wait for what is written after the end: the last events.
const LATE: Duration = Duration::from_secs(15);

/// What is awaited, and how.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) goal: Goal,
    pub(crate) timeout: Option<Duration>,
    /// Form in which the object is printed at its end.
    pub(crate) output: Option<ObjectFormat>,
    /// Whether the run's events are printed as they come.
    pub(crate) events: bool,
}

pub(crate) async fn run(cluster: &Cluster, args: &WaitArgs) -> Result<End, ToolError> {
    let wait = Wait {
        goal: args.goal,
        timeout: args.timeout,
        output: args.output,
        events: false,
    };
    // All of them must be there before one is waited for.
    let runs = try_join_all(args.names.iter().map(|name| cluster.run(name))).await?;
    let ends = runs.into_iter().map(|run| one(cluster, run, wait));
    let ends = try_join_all(ends).await?;
    // The end is that of the one that matters most.
    Ok(ends.into_iter().max().unwrap_or(End::Succeeded))
}

pub(crate) async fn events(cluster: &Cluster, args: &EventsArgs) -> Result<End, ToolError> {
    let run = cluster.run(&args.name).await?;
    if args.follow {
        let wait = Wait {
            goal: Goal::Succeeded,
            timeout: args.timeout,
            output: None,
            events: true,
        };
        return one(cluster, run, wait).await;
    }
    let mut printed = 0;
    print_events(&run, &mut printed)?;
    if printed == 0 {
        eprintln!("No events of {} yet.", run.name());
    }
    Ok(End::Succeeded)
}

/// Waits for one Run.
pub(crate) async fn one(cluster: &Cluster, mut run: Run, wait: Wait) -> Result<End, ToolError> {
    let (name, uid) = (run.name().to_owned(), run.uid().to_owned());
    let mut interrupted = pin!(interrupted().fuse());
    let timeout = wait.timeout.unwrap_or(Duration::MAX);
    let mut timeout = pin!(tokio::time::sleep(timeout));
    let mut changes = pin!(watch_object(cluster.runs(), &name).default_backoff());
    let (mut shown, mut printed) = (String::new(), 0);
    // Until when further events of a run that has ended are awaited.
    let mut late: Option<Instant> = None;
    loop {
        if wait.events {
            print_events(&run, &mut printed)?;
        }
        let outcome = outcome(&run, wait.goal);
        // The operator releases the object once the last events are in its status.
        let awaits_events = wait.events && run.ended() && finalizer::present(&run.metadata);
        let late = awaits_events.then(|| *late.get_or_insert_with(|| Instant::now() + LATE));
        if let Some(outcome) = outcome
            && late.is_none_or(|late| Instant::now() >= late)
        {
            return report_end(cluster, &run, outcome, wait.output);
        }
        progress(&mut shown, state(&run));
        tokio::select! {
            change = changes.next() => match change {
                Some(Ok(Some(version))) if version.uid() == uid => run = version,
                Some(Ok(_)) => return gone(cluster, &run, wait),
                Some(Err(error)) => if let Some(why) = passing(error)? {
                    progress(&mut shown, format!("{why}; trying again"));
                },
                None => return Ok(End::Failed),
            },
            () = tokio::time::sleep(Duration::from_secs(1)), if late.is_some() => {}
            () = &mut timeout => {
                let (reference, state) = (run.reference(), summary(&run, wall()));
                eprintln!("error: timed out waiting for {reference}: {}", print::line(&state));
                report_still_running(cluster, &name);
                return Ok(End::TimedOut);
            }
            () = &mut interrupted => {
                report_still_running(cluster, &name);
                return Ok(End::Interrupted);
            }
        }
    }
}

/// A line on standard error, unless it is the last one again.
fn progress(shown: &mut String, line: String) {
    if line != *shown {
        eprintln!("{}", print::line(&line));
        *shown = line;
    }
}

/// Prints what came since the last version. Of more than a status keeps, it says how many are missing.
fn print_events(run: &Run, printed: &mut usize) -> Result<(), ToolError> {
    let Some(status) = &run.status else {
        return Ok(());
    };
    let kept = status.events.len();
    let count = status.event_count.and_then(|n| usize::try_from(n).ok());
    let count = count.unwrap_or(kept).max(kept);
    let new = count.saturating_sub(*printed);
    let lost = new.saturating_sub(kept);
    if lost > 0 {
        eprintln!("({lost} earlier events are no longer kept)");
    }
    let events = status.events.iter().skip(kept.saturating_sub(new));
    let lines = events.map(|event| {
        let data = event.data.as_deref().unwrap_or_default();
        let line = format!("{}  {}  {data}", event.time.0, event.kind);
        line.trim_end().to_owned()
    });
    *printed = count;
    print::out(&print::lines(&lines.collect::<Vec<_>>()))
}

/// What an error that the watch gets over is called; none for what is no more than a fresh list. A refusal of the list or
/// of the watch ends the wait: it needs other permissions.
fn passing(error: watcher::Error) -> Result<Option<String>, ToolError> {
    let error = match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => error,
        watcher::Error::WatchError(_) => return Ok(None),
        error => return Ok(Some(error.to_string())),
    };
    let error = Refused::from(error);
    match error.code() {
        Some(400..=428 | 430..=499) => Err(error.into()),
        _ => Ok(Some(error.to_string())),
    }
}

/// Ends at Ctrl-C or SIGTERM.
async fn interrupted() {
    let ctrl_c = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                () = ctrl_c => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    ctrl_c.await;
}

/// Says how the wait ended.
fn report_end(
    cluster: &Cluster,
    run: &Run,
    outcome: Outcome,
    output: Option<ObjectFormat>,
) -> Result<End, ToolError> {
    let phase = run.phase().map_or("Pending", Phase::as_str);
    let (became, end) = match outcome {
        Outcome::Reached => (phase, End::Succeeded),
        Outcome::EndedOtherwise => (phase, End::EndedOtherwise),
        Outcome::NeedsPerson => ("Stalled", End::NeedsPerson),
        Outcome::Deleted => ("deleted", End::Deleted),
    };
    print::object(run, output, became)?;
    let name = run.name();
    match outcome {
        Outcome::Reached => {}
        Outcome::Deleted => eprintln!("{name}: it was deleted, last seen {phase}"),
        Outcome::EndedOtherwise | Outcome::NeedsPerson => {
            if let Some(condition) = run.condition() {
                let said = format!("{}: {}", condition.reason, condition.message);
                eprintln!("{name}: {}", print::line(&said));
            }
            eprintln!("More: {}", cluster.command(&format!("why {name}")));
        }
    }
    Ok(end)
}

/// A Run that ended before it was deleted has ended; any other is gone.
fn gone(cluster: &Cluster, run: &Run, wait: Wait) -> Result<End, ToolError> {
    let outcome = outcome(run, wait.goal).filter(|_| run.ended());
    let outcome = outcome.unwrap_or(Outcome::Deleted);
    report_end(cluster, run, outcome, wait.output)
}

fn report_still_running(cluster: &Cluster, name: &str) {
    let again = cluster.command(&format!("wait {name}"));
    eprintln!("{name} was not cancelled and goes on. To wait again: {again}");
}
