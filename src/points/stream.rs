//! Where a stream's reader takes an event out of what it has received.

use bytes::Bytes;
use reqwest::Response;

use crate::service::StreamItem;
use crate::service::sse::{Decoder, Item};

use super::calls::broken_off;
use super::plan::{self, Passing};
use super::{Fault, kill, overtaken};

/// The points of one stream.
#[derive(Default)]
pub struct Events {
    /// The next event has been met; a reader that is dropped meanwhile doesn't meet it again.
    met: bool,
    /// Its reader dies here when it asks for more.
    dies: Option<Passing>,
    /// The event comes twice.
    twice: bool,
    again: Option<StreamItem>,
}

impl Events {
    /// Meets the event that `received` completes, if there is one. Gives back what the rest of the stream is
    /// now, where it breaks.
    pub async fn meet(&mut self, decoder: &Decoder, received: &mut Bytes) -> Option<Response> {
        if let Some(here) = &self.dies {
            here.happens();
            kill();
        }
        let end = end_of_next(decoder, received)?;
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
            Fault::LoseRequest => 0,
            Fault::Cut => end / 2,
            Fault::LoseAnswer => end,
        };
        received.truncate(kept);
        Some(broken_off())
    }

    /// An event that comes once more.
    pub fn again(&mut self) -> Option<StreamItem> {
        self.again.take()
    }

    /// An item is handed on, if there was one.
    pub fn hand(&mut self, item: Option<&StreamItem>) {
        let Some(item) = item else {
            return;
        };
        self.met = false;
        if std::mem::take(&mut self.twice) {
            self.again = Some(item.clone());
        }
    }
}

/// Where the next event ends.
fn end_of_next(decoder: &Decoder, received: &[u8]) -> Option<usize> {
    let mut rest = received;
    match decoder.clone().step(&mut rest)? {
        Item::Event(_) => Some(received.len() - rest.len()),
        Item::Discarded => None,
    }
}
