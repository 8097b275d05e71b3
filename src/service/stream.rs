//! A run's event stream as received.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::time::timeout_at;

use crate::api::contract::Contract;
use crate::api::limits::{MAX_EVENT_ID, MAX_EVENT_TYPE};
use crate::decide::failure::Failure;

use super::connect::Place;
use super::send::{Deadline, Head, Incoming, REST_LOST};
use super::sse::{Caps, Decoder, Event, ID_BYTES, StreamItem};
use super::text::{Redactor, one_line};

// An id that the decoder keeps must fit where it is stored as resume position.
const _: () = assert!(ID_BYTES <= MAX_EVENT_ID);

/// An open event stream (rule 2). `next` may be dropped at any time, as in a `select!`: no event is lost, and the idle
/// time continues. The id to resume from is never ahead of the returned items. Errors are a cut connection and silence
/// of the contract file's `streamIdleSeconds` (not one byte, not even a comment); then `next` is `Ok(None)`.
pub struct EventStream {
    /// What is still to come: not the answer, whose address and headers are not needed for hours. `None` after the end.
    body: Option<BoxStream<'static, reqwest::Result<Bytes>>>,
    head: Head,
    received: Bytes,
    decoder: Decoder,
    redactor: Arc<Redactor>,
    idle: Deadline,
    /// Its place on a connection; after `body`, which uses it.
    _place: Place,
}

impl EventStream {
    pub(super) fn new(
        answer: Incoming,
        place: Place,
        contract: &Arc<Contract>,
        redactor: Arc<Redactor>,
        last_event_id: Option<&str>,
    ) -> Self {
        let limits = contract.limits();
        let caps = Caps {
            line: limits.event_line_bytes,
            event: limits.event_bytes,
        };
        Self {
            body: Some(answer.response.bytes_stream().boxed()),
            head: answer.head,
            received: Bytes::new(),
            decoder: Decoder::new(caps, last_event_id),
            redactor,
            idle: Deadline::after(contract.timeouts().stream_idle_seconds),
            _place: place,
        }
    }

    /// The next item; `None` at the stream's end, where an incomplete event is dropped.
    pub async fn next(&mut self) -> Result<Option<StreamItem>, Failure> {
        loop {
            if let Some(item) = self.decode() {
                return Ok(Some(item));
            }
            let Some(body) = &mut self.body else {
                return Ok(None);
            };
            let failure = match timeout_at(self.idle.at, body.next()).await {
                Ok(Some(Ok(chunk))) => {
                    self.received = chunk;
                    self.idle = Deadline::after(self.idle.seconds);
                    continue;
                }
                Ok(None) => {
                    self.body = None;
                    return Ok(None);
                }
                Ok(Some(Err(error))) => self.head.cut(REST_LOST, Some(&error.without_url())),
                Err(_) => {
                    let how = format!("nothing was received for {} s", self.idle.seconds);
                    self.head.cut(&how, None)
                }
            };
            self.body = None;
            return Err(failure);
        }
    }

    pub fn last_event_id(&self) -> Option<&str> {
        self.decoder.last_event_id()
    }

    pub fn retry(&self) -> Option<Duration> {
        self.decoder.retry()
    }

    /// The request id of the answer that opened the stream (rule 11).
    pub fn request_id(&self) -> Option<&str> {
        self.head.request_id.as_deref()
    }

    fn decode(&mut self) -> Option<StreamItem> {
        let mut rest: &[u8] = &self.received;
        let item = self.decoder.step(&mut rest);
        let taken = self.received.len() - rest.len();
        self.received.advance(taken);
        if self.received.is_empty() {
            // Even an empty part keeps the buffer that the connection was read into.
            self.received = Bytes::new();
        }
        Some(match item? {
            StreamItem::Discarded => StreamItem::Discarded,
            StreamItem::Event(event) => StreamItem::Event(Event {
                // An id that repeats the token is not shown; the stream still resumes from it.
                id: event.id.filter(|id| !self.redactor.is_in(id)),
                kind: one_line(&self.redactor.text(&event.kind), MAX_EVENT_TYPE),
                data: self.redactor.text(&event.data),
            }),
        })
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream")
            .field("request_id", &self.head.request_id)
            .field("open", &self.body.is_some())
            .finish_non_exhaustive()
    }
}
