//! Scrapes, of which a bounded number is served at the same time.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use http::header::ACCEPT;
use http::{HeaderMap, Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use run_operator::controller::{Probe, metrics::Format};

use super::answer::{answer, text, try_again};

/// Connections served `/metrics` at the same time.
const SCRAPES: usize = 8;
/// Wait of a further scrape before it is answered 503.
const SCRAPE_WAIT: Duration = Duration::from_secs(1);

/// Scrape permit, kept to the end of the connection.
pub(super) type ScrapePermit = Arc<OnceLock<OwnedSemaphorePermit>>;

/// The metrics, and the permits to render them.
#[derive(Clone)]
pub(super) struct Scrapes {
    probe: Probe,
    permits: Arc<Semaphore>,
}

impl Scrapes {
    pub(super) fn new(probe: Probe) -> Self {
        Self {
            probe,
            permits: Arc::new(Semaphore::new(SCRAPES)),
        }
    }

    /// The metrics in the format that the scraper accepts. `permit` must outlive the writing of the answer.
    pub(super) async fn serve(
        &self,
        headers: &HeaderMap,
        scrape_permit: &ScrapePermit,
    ) -> Response<Body> {
        let free = timeout(SCRAPE_WAIT, Arc::clone(&self.permits).acquire_owned()).await;
        let Ok(Ok(permit)) = free else {
            return try_again("too many scrapes\n");
        };
        // One request per connection: no permit is set yet.
        let _ = scrape_permit.set(permit);
        let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
        let format = Format::asked_for(accept);
        match self.probe.metrics(format) {
            Ok(rendered) => answer(StatusCode::OK, format.content_type(), rendered.into()),
            Err(error) => {
                tracing::error!(error = %error, "failed to render the metrics");
                text(StatusCode::INTERNAL_SERVER_ERROR, "failed to render\n")
            }
        }
    }
}
