//! One stream: opened, and read to its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::clock::wall;
use crate::controller::{
    context::Context,
    state::{call_limiter::CallPermit, stream_places::StreamPlace, workspaces::ClientSession},
};
use crate::decide::{
    Learned, Stream,
    event_buffer::Received,
    failure::{Call, Capacity, FailedCall, Failure},
};
use crate::service::{EventStream, StreamItem};

use super::{End, Follower, Resume};

/// Period over which open streams move to a new token.
const MOVES: Duration = Duration::from_mins(1);
/// Pause before a move is tried again if the Workspace's calls are paused or queued.
const MOVE_AGAIN: Duration = Duration::from_secs(5);

impl Follower {
    /// Opens the stream and reads it to its end.
    pub(super) async fn connect(
        &mut self,
        session: &ClientSession,
        permit: CallPermit,
        place: &StreamPlace,
    ) -> End {
        // Boxed: the task of an open stream needs no room for it.
        let stream = match Box::pin(self.open(session, permit, place)).await {
            Ok(stream) => stream,
            Err(end) => return end,
        };
        self.read(session, stream, place).await
    }

    /// Opens the stream. The Workspace's permit is held no longer.
    async fn open(
        &mut self,
        session: &ClientSession,
        mut permit: CallPermit,
        place: &StreamPlace,
    ) -> Result<Box<EventStream>, End> {
        permit.begin();
        if std::mem::take(&mut self.broken) {
            self.ctx.reconnects(&self.key);
        }
        let cursor = self.cursor();
        let opening =
            session
                .client
                .run_events(&session.credentials, &self.run_id, cursor.as_deref());
        let opened = tokio::select! {
            opened = opening => opened.map_err(|failure| Box::new(self.failed(failure))),
            () = place.asked_back(), if !self.reading_on() => return Err(End::PlaceAskedBack),
        };
        permit.ended(Capacity::after(opened.as_ref().err().map(Box::as_ref)));
        let stream = opened.map_err(End::Refused)?;
        if std::mem::replace(&mut self.opened_before, true) {
            self.ctx.metrics.stream_reconnects.inc();
        }
        self.learn(Learned::StreamOpened);
        self.entry.with(|state| state.streaming = Stream::Open);
        Ok(Box::new(stream))
    }

    fn failed(&self, failure: Failure) -> FailedCall {
        FailedCall::new(Call::Get, failure, &self.ctx.config.contract)
    }

    /// The last received id (rule 2); at first that of an earlier task or process.
    fn cursor(&self) -> Option<String> {
        if let Resume::After(id) = &self.resume {
            return id.clone();
        }
        self.entry.with(|state| {
            let status = state.run.latest().and_then(|run| run.status.as_ref());
            let mirrored = status.and_then(|status| status.last_event_id.clone());
            state
                .run
                .memory
                .event_buffer
                .cursor()
                .map(str::to_owned)
                .or(mirrored)
        })
    }

    async fn read(
        &mut self,
        session: &ClientSession,
        mut stream: Box<EventStream>,
        place: &StreamPlace,
    ) -> End {
        let ctx = Arc::clone(&self.ctx);
        let _open = OpenGauge::new(&ctx);
        let mut workspace = ctx.workspaces.subscribe(&self.key);
        // Time of the move to a newer token, if there is one.
        let mut moves: Option<Instant> = None;
        loop {
            let current = workspace.borrow_and_update().clone();
            if !current.keeps(&self.place) {
                return End::Unusable;
            }
            let newer = self
                .usable(&current)
                .filter(|newer| newer.credentials.token != session.credentials.token);
            let due = newer.as_ref().map(|_| {
                let spread = || Instant::now() + self.spread(MOVES);
                *moves.get_or_insert_with(spread)
            });
            let item = tokio::select! {
                item = stream.next() => item,
                _ = workspace.changed() => continue,
                () = place.asked_back(), if !self.reading_on() => {
                    // The run may have ended during the wait: then its last events can only be read from this stream.
                    if self.reading_on() {
                        continue;
                    }
                    return End::PlaceAskedBack;
                }
                () = until(due) => {
                    let permit = newer.as_ref().and_then(|newer| {
                        let namespace = &self.entry.namespace;
                        newer.limiter.ask(namespace).ok()
                    });
                    if let (Some(newer), Some(permit)) = (newer, permit) {
                        return End::Moves(newer, permit);
                    }
                    moves = Some(Instant::now() + MOVE_AGAIN);
                    continue;
                }
            };
            self.resume = Resume::After(stream.last_event_id().map(str::to_owned));
            match item {
                Ok(Some(item)) => self.receive(item),
                Ok(None) => {
                    return End::Closed {
                        pause: stream.retry(),
                    };
                }
                Err(failure) => {
                    tracing::debug!(run.uid = %self.entry.uid, error = failure.message, "event stream broke");
                    return End::Failed(Box::new(self.failed(failure)));
                }
            }
        }
    }

    /// Processes an event. Only a new event is progress: a stream that repeats known events and closes is reopened less
    /// and less often.
    fn receive(&mut self, item: StreamItem) {
        let StreamItem::Event(event) = item else {
            let entry = &self.entry;
            tracing::warn!(
                k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
                "an event was larger than the contract file allows; getting the run instead"
            );
            self.entry
                .with(|state| state.run.memory.event_buffer.hint());
            self.enqueue();
            return;
        };
        let received = Received {
            id: event.id,
            kind: event.kind,
            data: event.data,
        };
        let contract = &self.ctx.config.contract;
        let new = self.entry.with(|state| {
            let new = state.run.memory.received(&received, contract, wall());
            if new {
                state.stream.ended = 0;
            }
            // Events after the run's end are written when the stream has ended.
            new.then(|| state.run.memory.last_events.reading_on())
        });
        if let Some(reading_on) = new {
            self.failures = 0;
            self.ctx.metrics.stream_events.inc();
            if !reading_on {
                self.enqueue();
            }
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        // Boxed: only a stream that moves needs the timer.
        Some(due) => Box::pin(sleep_until(due)).await,
        None => std::future::pending().await,
    }
}

/// Counts an open stream until it is dropped.
struct OpenGauge<'a>(&'a Context);

impl<'a> OpenGauge<'a> {
    fn new(ctx: &'a Context) -> Self {
        ctx.metrics.open_streams.inc();
        Self(ctx)
    }
}

impl Drop for OpenGauge<'_> {
    fn drop(&mut self) {
        self.0.metrics.open_streams.dec();
    }
}
