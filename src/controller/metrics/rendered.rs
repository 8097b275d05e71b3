//! The last rendered exposition. Scrapes within a second get the same text, so that a hundred scrapes a second cost one
//! rendering.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::util::lock;

use super::Format;

/// Time for which a rendering is reused.
const KEPT: Duration = Duration::from_secs(1);

/// The last renderings, one per format.
#[derive(Default)]
pub struct Rendered {
    text: Mutex<Option<(Instant, Bytes)>>,
    open_metrics: Mutex<Option<(Instant, Bytes)>>,
}

impl Rendered {
    /// The text in this format: the rendering of the last second, or a new one by `render`. Each format is rendered at
    /// most once at a time.
    pub fn text(
        &self,
        format: Format,
        now: Instant,
        render: impl FnOnce() -> Result<String, fmt::Error>,
    ) -> Result<Bytes, fmt::Error> {
        let kept = match format {
            Format::Text => &self.text,
            Format::OpenMetrics => &self.open_metrics,
        };
        let mut kept = lock(kept);
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

    /// Proves: P-scrape
    #[test]
    fn a_thousand_scrapes_in_ten_seconds_cost_ten_renderings() {
        let (rendered, start) = (Rendered::default(), Instant::now());
        let mut renderings = 0;
        for n in 0..1000 {
            let now = start + Duration::from_millis(10 * n);
            let text = rendered.text(Format::Text, now, || {
                renderings += 1;
                Ok(renderings.to_string())
            });
            let second = n / 100 + 1;
            assert_eq!(text, Ok(Bytes::from(second.to_string())));
        }
        assert_eq!(renderings, 10);
    }

    /// Proves: P-scrape
    #[test]
    fn each_format_is_rendered_apart_and_a_failure_is_not_kept() {
        let (rendered, now) = (Rendered::default(), Instant::now());
        let text = |format, text: &str| rendered.text(format, now, || Ok(text.to_owned()));
        let failed = rendered.text(Format::Text, now, || Err(fmt::Error));
        assert_eq!(failed, Err(fmt::Error));
        assert_eq!(text(Format::Text, "a"), Ok(Bytes::from("a")));
        assert_eq!(text(Format::OpenMetrics, "b"), Ok(Bytes::from("b")));
        assert_eq!(text(Format::Text, "c"), Ok(Bytes::from("a")));
    }
}
