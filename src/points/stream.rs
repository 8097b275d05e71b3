//! Crash points of the events that a stream's reader takes from the received bytes.

use bytes::Bytes;
use reqwest::Response;

use super::calls::broken_off;
use super::plan::{self, Passing};
use super::{Fault, kill, overtaken};

/// The points of one stream of items.
pub struct Events<I> {
    /// The next event has passed its point; a reader that is dropped meanwhile doesn't pass it again.
    met: bool,
    /// The process is killed here when the reader asks for more.
    dies: Option<Passing>,
    /// The event comes twice.
    twice: bool,
    again: Option<I>,
}

impl<I> Default for Events<I> {
    fn default() -> Self {
        Self {
            met: false,
            dies: None,
            twice: false,
            again: None,
        }
    }
}

impl<I: Clone> Events<I> {
    /// Passes the point of the event that `received` completes, if there is one; `end_of_next` returns its end. If the
    /// stream breaks, returns its new rest.
    pub async fn meet(
        &mut self,
        end_of_next: impl FnOnce(&[u8]) -> Option<usize>,
        received: &mut Bytes,
    ) -> Option<Response> {
        if let Some(here) = &self.dies {
            here.happens();
            kill();
        }
        let end = end_of_next(received)?;
        if std::mem::replace(&mut self.met, true) {
            return None;
        }
        let passing = plan::pass("stream.event");
        let fault = passing.fault?;
        if fault != Fault::KillAfter {
            passing.happens();
        }
        let kept = match fault {
            Fault::KillBefore => kill(),
            Fault::KillAfter => {
                self.dies = Some(passing);
                return None;
            }
            Fault::Double | Fault::DoubleLate => {
                self.twice = true;
                return None;
            }
            Fault::Delay => {
                overtaken().await;
                return None;
            }
            // Only a reconcile panics.
            Fault::Panic => return None,
            Fault::LoseRequest => 0,
            Fault::Cut => end / 2,
            Fault::LoseAnswer => end,
        };
        received.truncate(kept);
        Some(broken_off())
    }

    /// An event that comes once more.
    pub fn again(&mut self) -> Option<I> {
        self.again.take()
    }

    /// An item is returned to the reader, if there was one.
    pub fn hand(&mut self, item: Option<&I>) {
        let Some(item) = item else {
            return;
        };
        self.met = false;
        if std::mem::take(&mut self.twice) {
            self.again = Some(item.clone());
        }
    }
}
