//! A warm standby among many Runs that have ended: how soon it acts after the leader's end.

use super::finished::{fresh, many, put};
use super::table::{Figures, seconds};
use crate::common::Outcome;

const ELECTION: &[&str] = &["--leader-elect", "--leader-elect-namespace", "default"];

/// Measures a takeover after a crash, and one after an orderly end.
pub(super) async fn measure(quick: bool) -> Outcome<Figures> {
    let count = many(quick);
    let (stage, ..) = put(count).await?;
    let (first, _) = stage.operator(ELECTION).await?;
    // Until it has submitted something it may not lead yet.
    fresh(&stage, "led").await?;
    let (second, warm) = stage.operator(ELECTION).await?;
    let waiting = second.usage()?;
    // Killed.
    drop(first);
    let crashed = fresh(&stage, "after-a-crash").await?;
    let leading = second.usage()? - waiting;
    let (_third, _) = stage.operator(ELECTION).await?;
    // The new leader must not end before the standby waits for it.
    second.stop().await?;
    let stopped = fresh(&stage, "after-an-end").await?;
    let warm_up = "A standby's start until its caches are filled, in s";
    let crash = "From the leader's crash until a fresh Run's POST, in s";
    let end = "From the leader's end by SIGTERM until a fresh Run's POST, in s";
    let cpu = "The standby's time on a core for its takeover, in s";
    Ok(Figures::new("takeover")
        .row("Runs that have ended", count)
        .row(warm_up, seconds(warm))
        .row(crash, seconds(crashed))
        .row(end, seconds(stopped))
        .row(cpu, seconds(leading.cpu)))
}
