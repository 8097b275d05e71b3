//! Bounded waits on a condition. Nothing here measures time; the bound only ends what hangs.

use std::time::{Duration, Instant};

/// Generous: on a machine that compiles at the same time everything takes longer.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(25);

/// Waits until `look` finds what it looks for.
///
/// # Panics
/// After 90 seconds, with what `look` last said it saw.
pub(crate) async fn eventually<T, E: std::fmt::Display>(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(
                Instant::now() < deadline,
                "waited in vain until {what}; saw {seen}"
            ),
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Looks `looks` times whether `check` still holds. For "nothing happens", which no condition can show:
/// pass a count that covers the operator's own pace in the test.
pub(crate) async fn holds_for_a_while(looks: u32, mut check: impl AsyncFnMut()) {
    for _ in 0..looks {
        check().await;
        tokio::time::sleep(POLL).await;
    }
}
