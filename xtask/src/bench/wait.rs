//! Waiting for what can only be asked for again and again.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::error::BenchError;

/// Interval of asking.
const POLL: Duration = Duration::from_millis(10);

/// Asks until the answer is there; `seen` is for the error.
pub(super) async fn until<T>(
    what: &'static str,
    patience: Duration,
    seen: impl Fn() -> String,
    mut ask: impl AsyncFnMut() -> Result<Option<T>, BenchError>,
) -> Result<T, BenchError> {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        if began.elapsed() > patience {
            return Err(BenchError::Wait {
                what,
                after: patience,
                seen: seen(),
            });
        }
        sleep(POLL).await;
    }
}
