//! What a scrape reads.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::util::lock;

const KEPT: Duration = Duration::from_secs(1);

/// The last rendering: a hundred scrapes within a second cost one.
#[derive(Default)]
pub struct Rendered(Mutex<Option<(Instant, Bytes)>>);

impl Rendered {
    /// The rendering of the last second, or a new one by `render`, at most one at a time.
    pub fn text(
        &self,
        now: Instant,
        render: impl FnOnce() -> Result<String, fmt::Error>,
    ) -> Result<Bytes, fmt::Error> {
        let mut kept = lock(&self.0);
        if let Some((at, text)) = &*kept
            && now.saturating_duration_since(*at) < KEPT
        {
            return Ok(text.clone());
        }
        let text = Bytes::from(render()?);
        *kept = Some((now, text.clone()));
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: P-metrics
    #[test]
    fn a_thousand_scrapes_in_ten_seconds_cost_ten_renderings() {
        let (rendered, start) = (Rendered::default(), Instant::now());
        let mut renderings = 0;
        for n in 0..1000 {
            let now = start + Duration::from_millis(10 * n);
            let text = rendered.text(now, || {
                renderings += 1;
                Ok(renderings.to_string())
            });
            let second = n / 100 + 1;
            assert_eq!(text, Ok(Bytes::from(second.to_string())));
        }
        assert_eq!(renderings, 10);
    }
}
