//! A warm standby among many Runs that have ended: how soon it acts after the leader's end.

use super::figures::Figures;

use super::error::BenchError;
use super::finished::{fresh, many, put};
use super::stage::Stage;

const ELECTION: &[&str] = &["--leader-elect", "--leader-elect-namespace", "default"];

/// Measures a takeover after a crash, and one after an orderly end.
pub(super) async fn measure(quick: bool) -> Result<Figures, BenchError> {
    let count = many(quick);
    let mut stage = Stage::set().await?;
    put(&mut stage, count).await?;
    let (first, _) = stage.another_operator(ELECTION).await?;
    // Until it has submitted something it may not lead yet.
    fresh(&stage, "led").await?;
    let (second, warm) = stage.another_operator(ELECTION).await?;
    let waiting = second.usage()?;
    first.kill();
    let crashed = fresh(&stage, "after-a-crash").await?;
    let leading = second.usage()?;
    let (third, _) = stage.another_operator(ELECTION).await?;
    // The new leader must not end before the standby waits for it.
    second.stop().await?;
    let stopped = fresh(&stage, "after-an-end").await?;
    let seconds = |took: std::time::Duration| format!("{:.1}", took.as_secs_f64());
    let figures = Figures::new("takeover")
        .row("Runs that have ended", count)
        .row(
            "A standby's start until its caches are filled, in s",
            seconds(warm),
        )
        .row(
            "From the leader's crash until a fresh Run's POST, in s",
            seconds(crashed),
        )
        .row(
            "From the leader's end by SIGTERM until a fresh Run's POST, in s",
            seconds(stopped),
        )
        .row(
            "The standby's time on a core for its takeover, in s",
            seconds(leading.cpu.saturating_sub(waiting.cpu)),
        );
    drop(third);
    Ok(figures)
}
