//! `kubectl runs wait`, and the waiting of `submit` and `events`.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use futures::{FutureExt, StreamExt};

use run_operator::api::Phase;
use run_operator::clock::wall;
use run_operator::decide::explain::summary;
use run_operator::decide::explain::verdict::{self, Goal, Verdict};

use crate::cli::runs::{self, ObjectFormat, WaitArgs};
use crate::signals;

use super::cluster::Cluster;
use super::exit::{End, RunsError};
use super::object::Seen;
use super::print;
use super::progress::Progress;
use super::watch::{Change, changes};

impl From<runs::Goal> for Goal {
    fn from(goal: runs::Goal) -> Self {
        match goal {
            runs::Goal::Finished => Self::Finished,
            runs::Goal::Succeeded => Self::Succeeded,
            runs::Goal::Accepted => Self::Accepted,
        }
    }
}

/// Longest wait for what is written after the end: the last events.
const LATE: Duration = Duration::from_secs(15);

/// What is awaited, and how.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub(super) goal: Goal,
    pub(super) timeout: Option<Duration>,
    /// Form in which the object is printed at its end.
    pub(super) output: Option<ObjectFormat>,
}

/// Takes notice of each version of a Run that is awaited.
pub(super) trait Watcher {
    /// A version, or its last one.
    fn seen(&mut self, run: &Seen) -> Result<(), RunsError>;

    /// Whether nothing more is expected of a Run that has ended.
    fn is_complete(&self, run: &Seen) -> bool;
}

/// Prints nothing but the progress.
pub(super) struct Nothing;

impl Watcher for Nothing {
    fn seen(&mut self, _: &Seen) -> Result<(), RunsError> {
        Ok(())
    }

    fn is_complete(&self, _: &Seen) -> bool {
        true
    }
}

pub(super) async fn run(cluster: &Cluster, args: &WaitArgs) -> Result<End, RunsError> {
    let runs = try_join_all(args.names.iter().map(|name| cluster.run(name))).await?;
    let runs: Vec<_> = runs.into_iter().map(|run| (cluster.clone(), run)).collect();
    let patience = Patience {
        goal: args.goal.into(),
        timeout: args.timeout,
        output: args.output,
    };
    all(&runs, patience).await
}

/// Waits for all of them; the end is that of the one that matters most.
pub(super) async fn all(runs: &[(Cluster, Seen)], patience: Patience) -> Result<End, RunsError> {
    let waits = runs.iter().map(|(cluster, run)| {
        let progress = Progress::new(runs.len());
        one(cluster, run, patience, progress, Nothing)
    });
    let ends = try_join_all(waits).await?;
    Ok(ends.into_iter().max().unwrap_or(End::Succeeded))
}

/// Waits for one Run, by its uid.
pub(super) async fn one(
    cluster: &Cluster,
    run: &Seen,
    patience: Patience,
    mut progress: Progress,
    mut watcher: impl Watcher,
) -> Result<End, RunsError> {
    let name = run.name();
    let mut interrupted = pin!(interrupted().fuse());
    let mut over = pin!(async {
        match patience.timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    });
    let mut second = tokio::time::interval(Duration::from_secs(1));
    let mut changes = pin!(changes(cluster, name, run.uid()));
    let mut last = run.clone();
    let mut late = None;
    watcher.seen(&last)?;
    loop {
        let awaits_more = last.stored().ended()
            && !watcher.is_complete(&last)
            && late.is_none_or(|late| Instant::now() < late);
        if let Some(verdict) = verdict::of(last.stored(), patience.goal)
            && !awaits_more
        {
            progress.close();
            return tell(cluster, &last, verdict, patience.output);
        }
        if last.stored().ended() {
            late.get_or_insert_with(|| Instant::now() + LATE);
        }
        progress.show(&last, wall());
        tokio::select! {
            change = changes.next() => match change {
                Some(Ok(Change::Seen(run))) => last = *run,
                Some(Ok(Change::Gone(version))) => {
                    progress.close();
                    if let Some(run) = version {
                        last = *run;
                        watcher.seen(&last)?;
                    }
                    return gone(&last, patience);
                }
                Some(Ok(Change::Silent(why))) => progress.note(&format!("{why}; trying again")),
                Some(Err(error)) => {
                    progress.close();
                    return Err(error);
                }
                None => return Ok(End::Failed),
            },
            _ = second.tick(), if progress.ticks() || late.is_some() => {}
            () = &mut over => {
                progress.close();
                let state = summary::summary(last.stored(), wall());
                eprintln!("error: timed out waiting for {}: {state}", last.reference());
                go_on(cluster, &last);
                return Ok(End::TimedOut);
            }
            () = &mut interrupted => {
                progress.close();
                go_on(cluster, &last);
                return Ok(End::Interrupted);
            }
        }
        watcher.seen(&last)?;
    }
}

/// Ends at Ctrl-C or SIGTERM; at once, if they can't be awaited.
async fn interrupted() {
    if let Ok(asked) = signals::asked_to_end() {
        asked.await;
    }
}

/// Says how the wait ended.
fn tell(
    cluster: &Cluster,
    run: &Seen,
    verdict: Verdict,
    output: Option<ObjectFormat>,
) -> Result<End, RunsError> {
    match verdict {
        Verdict::Reached => {
            print::object(run, output, phase(run))?;
            Ok(End::Succeeded)
        }
        Verdict::EndedOtherwise => {
            print::object(run, output, phase(run))?;
            why(cluster, run);
            Ok(End::EndedOtherwise)
        }
        Verdict::NeedsPerson => {
            print::object(run, output, "Stalled")?;
            why(cluster, run);
            Ok(End::NeedsPerson)
        }
    }
}

fn phase(run: &Seen) -> &'static str {
    run.stored().phase().map_or("Pending", Phase::as_str)
}

/// The condition's message, and where to find more.
fn why(cluster: &Cluster, run: &Seen) {
    if let Some(condition) = run.stored().telling() {
        eprintln!(
            "{}: {}: {}",
            run.name(),
            condition.reason,
            condition.message
        );
    }
    let command = cluster.command(&format!("why {}", run.name()));
    eprintln!("More: {command}");
}

/// A Run that ended before it was deleted has ended; any other is gone.
fn gone(last: &Seen, patience: Patience) -> Result<End, RunsError> {
    let end = match verdict::of(last.stored(), patience.goal) {
        Some(Verdict::Reached) => End::Succeeded,
        Some(Verdict::EndedOtherwise) => End::EndedOtherwise,
        Some(Verdict::NeedsPerson) | None => {
            print::object(last, patience.output, "deleted")?;
            let phase = phase(last);
            eprintln!("{}: it was deleted, last seen {phase}", last.name());
            return Ok(End::Deleted);
        }
    };
    print::object(last, patience.output, phase(last))?;
    Ok(end)
}

fn go_on(cluster: &Cluster, run: &Seen) {
    let name = run.name();
    eprintln!(
        "{name} was not cancelled and goes on. To wait again: {}",
        cluster.command(&format!("wait {name}"))
    );
}
