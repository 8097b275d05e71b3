//! The events of the service's stream on their way through the proxy: each is subject to the same rules as a request.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures::{Stream, StreamExt, stream};
use tokio::task::JoinHandle;

use super::Shared;
use super::fault::{Fault, Hook, cut};
use super::request::Asked;

/// The end of an event, or of a comment.
const BLANK: &[u8] = b"\n\n";

/// A stream of events.
struct Events<S> {
    shared: Arc<Shared>,
    upstream: S,
    /// Bytes that are not passed yet.
    rest: Vec<u8>,
    /// The stream breaks when this has ended, which is done whoever reads on.
    breaks: Option<JoinHandle<()>>,
}

fn meanwhile(hook: Hook) -> JoinHandle<()> {
    tokio::spawn(async move { hook.run().await })
}

/// The stream, event by event.
pub(super) fn watched<S, E>(shared: Arc<Shared>, upstream: S) -> Body
where
    S: Stream<Item = Result<Bytes, E>> + Send + Unpin + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let events = Events {
        shared,
        upstream,
        rest: Vec::new(),
        breaks: None,
    };
    Body::from_stream(stream::unfold(events, |mut events| async move {
        let bytes = events.next().await?;
        Some((bytes, events))
    }))
}

impl<S, E> Events<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: std::error::Error + Send + Sync + 'static,
{
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if let Some(meanwhile) = self.breaks.take() {
            // What came before is sent first.
            tokio::task::yield_now().await;
            let _ = meanwhile.await;
            return Some(Err(cut()));
        }
        loop {
            if let Some(at) = self.rest.windows(BLANK.len()).position(|two| two == BLANK) {
                let block: Vec<u8> = self.rest.drain(..at + BLANK.len()).collect();
                return Some(self.pass(block).await);
            }
            match self.upstream.next().await {
                Some(Ok(chunk)) => self.rest.extend_from_slice(&chunk),
                None if self.rest.is_empty() => return None,
                ended if self.rest.is_empty() => {
                    return ended.map(|chunk| chunk.map_err(io::Error::other));
                }
                ended => {
                    self.breaks = ended.map(|_| meanwhile(Hook::none()));
                    return Some(Ok(std::mem::take(&mut self.rest).into()));
                }
            }
        }
    }

    /// Passes what ends with a blank line.
    async fn pass(&mut self, block: Vec<u8>) -> io::Result<Bytes> {
        let mut lines = block.split(|byte| *byte == b'\n');
        if !lines.any(|line| line.starts_with(b"data")) {
            return Ok(block.into());
        }
        let (_, fault) = self.shared.begin(Asked::event());
        let mut kept = block.len();
        match fault {
            Some(Fault::LoseRequest(hook)) => {
                hook.run().await;
                return Err(cut());
            }
            Some(Fault::Double) => return Ok(block.repeat(2).into()),
            Some(Fault::Delay(hook)) => hook.run().await,
            Some(Fault::LoseAnswer(hook)) => self.breaks = Some(meanwhile(hook)),
            Some(Fault::Cut) => {
                kept /= 2;
                self.breaks = Some(meanwhile(Hook::none()));
            }
            _ => {}
        }
        Ok(Bytes::from(block).slice(..kept))
    }
}
