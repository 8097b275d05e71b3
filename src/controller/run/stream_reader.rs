//! Follows the events of one Run (rule 2): waits for a place, opens the stream, reads it, reopens it from its cursor.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::api::{WorkspaceKey, status::ResolvedWorkspace};
use crate::clock::now;
use crate::controller::{
    context::Context,
    leader,
    state::{
        call_limiter::CallPermit,
        places::{Queued, StreamPlace},
        runs::RunEntry,
        workspaces::{ClientSession, WorkspaceState},
    },
};
use crate::decide::{
    Report, Stream, delays,
    event_buffer::Received,
    failure::{Call, Capacity, FailedCall, Failure},
    stream::{self, Ended, StreamEnd},
};
use crate::service::{EventStream, RunId, StreamItem};

/// Period over which a Workspace's streams are reopened after they lost their session.
const SPREAD: Duration = Duration::from_secs(1);
/// Period over which open streams move to a new token.
const MOVES: Duration = Duration::from_mins(1);
/// Pause before a move is tried again if the Workspace's calls are paused or queued.
const MOVE_AGAIN: Duration = Duration::from_secs(5);
/// A longer wait for a place is shown, and the Run is polled more often.
const SHORT_WAIT: Duration = Duration::from_secs(2);

/// End of a stream. (A failure is boxed: the task of an open stream has room for its end.)
enum End {
    /// The service closed it; the pause that it asks for.
    Closed(Option<Duration>),
    Failed(Box<FailedCall>),
    Refused(Box<FailedCall>),
    /// The stream moves to a newer token; the permit is for opening it there.
    Moves(Arc<ClientSession>, CallPermit),
    PlaceAskedBack,
    /// The Workspace's token was rejected, or the Workspace now has another place.
    Unusable,
}

pub(crate) struct StreamReader {
    pub(crate) ctx: Arc<Context>,
    pub(crate) entry: Arc<RunEntry>,
    pub(crate) key: WorkspaceKey,
    /// The place of the run; a session of another place is not used.
    pub(crate) place: Arc<ResolvedWorkspace>,
    pub(crate) run_id: RunId,
    /// Failures in a row, including those of earlier tasks.
    pub(crate) failures: u32,
    pub(crate) opened_before: bool,
    pub(crate) broken: bool,
    /// The last received id (rule 2), at first that of an earlier task or process: the next stream resumes after it.
    /// `None`: from the beginning, also where the service has reset its ids.
    pub(crate) cursor: Option<String>,
}

impl StreamReader {
    /// Runs until shutdown or until it is aborted. (Boxed: a future holds its arguments twice.)
    pub(crate) async fn read_streams(mut self: Box<Self>) {
        let ctx = Arc::clone(&self.ctx);
        tokio::select! {
            () = self.reopen() => {}
            () = ctx.shutdown.cancelled() => {}
        }
    }

    async fn reopen(&mut self) {
        let entry = Arc::clone(&self.entry);
        if self.failures > 0 {
            let seed = delays::seed(&self.entry.uid, self.failures);
            sleep(delays::backoff(self.failures, None, seed)).await;
        }
        loop {
            // Boxed: the task of an open stream needs no room for it.
            let (place, permit) = Box::pin(self.place_and_permit()).await;
            // A term that has passed may still be renewed.
            if !self.ctx.leading.holds() {
                drop((place, permit));
                sleep(leader::AGAIN).await;
                continue;
            }
            // Another token may have come meanwhile, or none that serves: that is not waited for here.
            let Some(mut session) = self.session() else {
                continue;
            };
            let mut end = self.connect(&session, permit, &place).await;
            while let End::Moves(newer, permit) = end {
                session = newer;
                end = self.connect(&session, permit, &place).await;
            }
            drop(place);
            // Created before the pause is computed: a later wake-up ends the pause, an earlier one doesn't.
            let woken = entry.wake_stream.notified();
            let pause = self.ended(&session, end);
            tokio::select! {
                () = sleep(pause) => {}
                () = woken => {}
            }
        }
    }

    /// What waits for its Workspace or permit holds no place: one Workspace's outage would close the streams of all.
    async fn place_and_permit(&self) -> (StreamPlace, CallPermit) {
        let namespace = &self.entry.namespace;
        loop {
            self.wait_for_session().await;
            let place = match self.ctx.streams.ask(namespace) {
                Ok(place) => place,
                Err(queued) => self.wait_for_place(queued).await,
            };
            let Some(session) = self.session() else {
                continue;
            };
            let queued = match session.limiter.ask(namespace) {
                Ok(permit) => return (place, permit),
                Err(queued) => queued,
            };
            drop((session, place));
            let permit = queued.given().await;
            if let Ok(place) = self.ctx.streams.ask(namespace) {
                return (place, permit);
            }
        }
    }

    /// Meanwhile the Run is polled. A short wait is not shown, but for a Run that has ended: its last events can't be read.
    async fn wait_for_place(&self, queued: Queued<StreamPlace>) -> StreamPlace {
        let quiet = if self.reading_on() {
            Duration::ZERO
        } else {
            SHORT_WAIT
        };
        let place = queued.given();
        tokio::pin!(place);
        if let Ok(place) = tokio::time::timeout(quiet, &mut place).await {
            return place;
        }
        self.set_stream(Stream::Waiting { since: now() });
        place.await
    }

    async fn wait_for_session(&self) {
        let mut workspace = self.ctx.workspaces.subscribe(&self.key);
        let usable = workspace.wait_for(|workspace| self.usable(workspace).is_some());
        if usable.await.is_err() {
            // The sender was dropped: the process ends.
            std::future::pending::<()>().await;
        }
    }

    fn session(&self) -> Option<Arc<ClientSession>> {
        self.usable(&self.ctx.workspaces.state(&self.key))
    }

    /// The session, if it is one of the run's place. View and session of a Workspace change together.
    fn usable(&self, workspace: &WorkspaceState) -> Option<Arc<ClientSession>> {
        workspace
            .session
            .clone()
            .filter(|_| workspace.view.serves(&self.place))
    }

    /// Returns the pause before the next one. It grows until a new event arrives, even if streams open and close at once.
    fn ended(&mut self, session: &ClientSession, end: End) -> Duration {
        let (failed, asked) = match end {
            End::Unusable | End::Moves(..) => {
                self.set_stream(Stream::Closed);
                // The streams of all the Workspace's Runs end at the same moment.
                return self.spread(SPREAD);
            }
            End::PlaceAskedBack => {
                self.set_stream(Stream::Waiting { since: now() });
                return Duration::ZERO;
            }
            End::Closed(pause) => {
                self.record(Report::StreamEnded(StreamEnd::Closed));
                (None, pause)
            }
            End::Failed(failed) => (Some(failed), None),
            // Only a stream that can't be opened is evidence about the Workspace.
            End::Refused(failed) => {
                self.ctx.suspect(&self.key, session.number, &failed);
                self.record(Report::StreamEnded(StreamEnd::unopened(&failed)));
                (Some(failed), None)
            }
        };
        self.set_stream(Stream::Closed);
        self.broken = true;
        self.failures = self.failures.saturating_add(1);
        let settings = &self.ctx.config.settings;
        self.entry.with(|state| {
            stream::pause(&Ended {
                failed: failed.as_deref(),
                asked,
                failures: self.failures,
                last: &state.run.memory.last_events,
                polls: (settings.poll_min, settings.poll_max),
                seed: delays::seed(&self.entry.uid, self.failures),
            })
        })
    }

    fn reading_on(&self) -> bool {
        self.entry
            .with(|state| state.run.memory.last_events.reading_on())
    }

    fn set_stream(&self, stream: Stream) {
        self.entry.with(|state| {
            state.streaming = match (state.streaming, stream) {
                // The mirror was fresh until the first of them.
                (Stream::Waiting { since }, Stream::Waiting { .. }) => Stream::Waiting { since },
                (_, stream) => stream,
            };
        });
        self.enqueue();
    }

    fn record(&self, report: Report) {
        self.entry.record(&self.ctx.config.contract, report);
    }

    /// A part of `over` that depends on the object's uid.
    fn spread(&self, over: Duration) -> Duration {
        let thousandths = u32::try_from(delays::seed(&self.entry.uid, 0) % 1000);
        over * thousandths.unwrap_or_default() / 1000
    }

    fn enqueue(&self) {
        let entry = &self.entry;
        self.ctx.enqueue_run(&entry.namespace, &entry.uid);
    }

    async fn connect(
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
        let (client, credentials) = (&session.client, &session.credentials);
        let opening = client.run_events(credentials, &self.run_id, self.cursor.as_deref());
        let opened = tokio::select! {
            opened = opening => opened.map_err(|failure| Box::new(self.failed(failure))),
            () = place.asked_back(), if !self.reading_on() => return Err(End::PlaceAskedBack),
        };
        permit.ended(Capacity::after(opened.as_ref().err().map(Box::as_ref)));
        let stream = opened.map_err(End::Refused)?;
        if std::mem::replace(&mut self.opened_before, true) {
            self.ctx.metrics.stream_reconnects.inc();
        }
        self.record(Report::StreamOpened);
        self.entry.with(|state| state.streaming = Stream::Open);
        Ok(Box::new(stream))
    }

    fn failed(&self, failure: Failure) -> FailedCall {
        FailedCall::new(Call::Get, failure, &self.ctx.config.contract)
    }

    async fn read(
        &mut self,
        session: &ClientSession,
        mut stream: Box<EventStream>,
        place: &StreamPlace,
    ) -> End {
        let ctx = Arc::clone(&self.ctx);
        ctx.metrics.open_streams.inc();
        let _open = OpenStream(Arc::clone(&ctx));
        let mut workspace = ctx.workspaces.subscribe(&self.key);
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
            self.cursor = stream.last_event_id().map(str::to_owned);
            match item {
                Ok(Some(item)) => self.receive(item),
                Ok(None) => return End::Closed(stream.retry()),
                Err(failure) => {
                    tracing::debug!(run.uid = %self.entry.uid, error = failure.message, "event stream broke");
                    return End::Failed(Box::new(self.failed(failure)));
                }
            }
        }
    }

    /// Only a new event is progress: a stream that repeats known events and closes is reopened less and less often.
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
        let with = self.entry.report_context(&self.ctx.config.contract, 0);
        let new = self.entry.with(|state| {
            let new = state.run.memory.received(&received, with);
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

struct OpenStream(Arc<Context>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.metrics.open_streams.dec();
    }
}
