//! Follows the events of one Run (rule 2): waits for a place, opens the stream, reads it, and opens it again
//! from its cursor.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::api::status::ResolvedWorkspace;
use crate::decide::{
    Learned, Learning, Stream,
    answer::Failure,
    backoff,
    classify::{Call, Class, classify},
    feed::Received,
    last_events::StreamEnd,
};
use crate::service::{EventStream, RunId, StreamItem};

use super::{
    context::{Context, now, wall},
    gate::Permit,
    objects::Entry,
    registry::{Key, Live, Slot},
    stream_places::Place,
    watch::chain,
    window::Outcome,
};

/// Pause after a stream ended well and the service named none: it ends when the run does, most often,
/// and then nobody opens it again.
const AFTER_END: Duration = Duration::from_secs(1);
/// The same where the stream delivered the run's end: the next look ends the Run.
const AFTER_LAST: Duration = Duration::from_secs(5);
/// The longest pause while the last events are read, unless the service asked for a longer one.
const LAST_EVENTS_APART: Duration = Duration::from_millis(500);
/// The streams of a Workspace that lost their session are opened again over this time, not all at once.
const SPREAD: Duration = Duration::from_secs(1);
/// Open streams go over to a new token over this time.
const MOVES: Duration = Duration::from_mins(1);
/// A move that finds the Workspace's calls paused or queued is tried again after this time.
const MOVE_AGAIN: Duration = Duration::from_secs(5);
/// A wait for a place is said, and the Run polled more often, if it takes this long.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause before it is looked again whether this process leads.
const NOT_LEADING: Duration = Duration::from_secs(1);

/// How a stream ended.
enum End {
    /// The service closed it.
    Closed { pause: Option<Duration> },
    /// It broke.
    Failed(Failure),
    /// It could not be opened.
    Refused(Failure),
    /// It goes over to a newer token, with the right to open a stream with it.
    Moves(Arc<Live>, Permit),
    /// Another Run has its place.
    PlaceAskedBack,
    /// The Workspace's token was rejected, or it stands for another place.
    Unusable,
}

/// Where a stream resumes.
enum Resume {
    /// Where the object says, or what an earlier task received.
    AsMirrored,
    /// After this event; after none, if the service has reset its ids.
    After(Option<String>),
}

/// Follows the events of one Run.
pub(super) struct Follower {
    ctx: Arc<Context>,
    entry: Arc<Entry>,
    key: Key,
    /// Where the run lives; a session of another place is not used.
    place: ResolvedWorkspace,
    run_id: RunId,
    /// Ends a pause.
    hurry: Arc<Notify>,
    /// Failures in a row, those of the tasks before included.
    failures: u32,
    opened_before: bool,
    /// Whether the last stream broke, was closed or refused.
    broken: bool,
    /// Where this task's last stream said to resume.
    resume: Resume,
}

impl Follower {
    pub(super) fn new(
        ctx: Arc<Context>,
        entry: Arc<Entry>,
        key: Key,
        place: ResolvedWorkspace,
        run_id: RunId,
        hurry: Arc<Notify>,
        failures: u32,
    ) -> Self {
        Self {
            ctx,
            entry,
            key,
            place,
            run_id,
            hurry,
            failures,
            opened_before: false,
            broken: false,
            resume: Resume::AsMirrored,
        }
    }

    /// Until shutdown, or until it is aborted.
    pub(super) async fn follow(mut self) {
        let ctx = Arc::clone(&self.ctx);
        let hurry = Arc::clone(&self.hurry);
        tokio::select! {
            () = self.streams(&hurry) => {}
            () = ctx.shutdown.cancelled() => {}
        }
    }

    async fn streams(&mut self, hurry: &Notify) {
        if self.failures > 0 {
            let seed = backoff::seed(&self.entry.uid, self.failures);
            sleep(backoff::delay(self.failures, None, seed)).await;
        }
        loop {
            let (place, permit) = self.turn().await;
            // A term that has passed may be renewed yet.
            if !self.ctx.leading.holds() {
                drop((place, permit));
                sleep(NOT_LEADING).await;
                continue;
            }
            // Another token may have come meanwhile, or none that serves: that is not waited for here.
            let Some(mut live) = self.usable(&self.ctx.registry.slot(&self.key)) else {
                continue;
            };
            let mut end = self.connect(&live, permit, &place).await;
            while let End::Moves(newer, permit) = end {
                live = newer;
                end = self.connect(&live, permit, &place).await;
            }
            drop(place);
            // Made before the pause is decided: whoever hurries after that is heard, nobody before.
            let hurried = hurry.notified();
            let pause = self.ended(&live, end);
            tokio::select! {
                () = sleep(pause) => {}
                () = hurried => {}
            }
        }
    }

    /// Waits for a place among the open streams and for the turn to make a call. A stream that waits for its
    /// Workspace or its turn holds no place, else one Workspace's trouble would close the streams of all.
    async fn turn(&self) -> (Place, Permit) {
        loop {
            self.live_session().await;
            let place = self.a_place().await;
            let Some(live) = self.usable(&self.ctx.registry.slot(&self.key)) else {
                continue;
            };
            let gate = Arc::clone(&live.gate);
            if let Some(permit) = gate.enter_at_once() {
                return (place, permit);
            }
            drop(place);
            let permit = gate.wait(&self.entry.namespace).await;
            let place = self.ctx.streams.enter(&self.entry.namespace);
            if place.granted() {
                return (place, permit);
            }
        }
    }

    /// Waits for a place. Meanwhile the Run is polled; that is said unless it takes a moment only. Of a Run that
    /// has ended it is said at once: its last events can't be had.
    async fn a_place(&self) -> Place {
        let place = self.ctx.streams.enter(&self.entry.namespace);
        let ended = self
            .entry
            .with(|state| state.memory.last_events.reading_on());
        let patience = if ended { Duration::ZERO } else { PATIENCE };
        if tokio::time::timeout(patience, place.wait()).await.is_err() {
            self.shows(Stream::Waiting { since: now() });
            place.wait().await;
        }
        place
    }

    /// Waits for a verified session of the run's place.
    async fn live_session(&self) {
        let mut slot = self.ctx.registry.subscribe(&self.key);
        let usable = slot.wait_for(|slot| self.usable(slot).is_some());
        if usable.await.is_err() {
            // Nobody tells any more: the process ends.
            std::future::pending::<()>().await;
        }
    }

    /// The session, if it is one of the run's place. View and session of a slot change together.
    fn usable(&self, slot: &Slot) -> Option<Arc<Live>> {
        slot.live.clone().filter(|_| slot.view.serves(&self.place))
    }

    /// Opens the stream and reads it to its end. The Workspace's gate is held for the opening only.
    async fn connect(&mut self, live: &Live, permit: Permit, place: &Place) -> End {
        if std::mem::take(&mut self.broken) {
            self.ctx.reconnects(&self.key);
        }
        let cursor = self.cursor();
        let opening = live
            .client
            .run_events(&live.credentials, &self.run_id, cursor.as_deref());
        let opened = tokio::select! {
            opened = opening => opened.map_err(|error| Failure::from(&error)),
            () = place.asked_back(), if !self.reading_on() => return End::PlaceAskedBack,
        };
        permit.ended(Outcome::of(opened.as_ref()));
        let stream = match opened {
            Ok(stream) => stream,
            Err(failure) => return End::Refused(failure),
        };
        if std::mem::replace(&mut self.opened_before, true) {
            self.ctx.metrics.stream_reconnects.inc();
        }
        self.learn(Learned::StreamOpened);
        self.entry.with(|state| state.streaming = Stream::Open);
        let ctx = Arc::clone(&self.ctx);
        let _open = OpenGauge::new(&ctx);
        self.read(live, stream, place).await
    }

    /// The last received id (rule 2); at first what an earlier task or process received.
    fn cursor(&self) -> Option<String> {
        if let Resume::After(id) = &self.resume {
            return id.clone();
        }
        self.entry.with(|state| {
            let status = state.latest.as_ref().and_then(|run| run.status.as_ref());
            let mirrored = status.and_then(|status| status.last_event_id.clone());
            state.memory.feed.cursor().map(str::to_owned).or(mirrored)
        })
    }

    async fn read(&mut self, live: &Live, mut stream: EventStream, place: &Place) -> End {
        let mut slot = self.ctx.registry.subscribe(&self.key);
        // When it goes over to a newer token, if there is one.
        let mut moves: Option<Instant> = None;
        loop {
            let current = slot.borrow_and_update().clone();
            if !current.keeps(&self.place) {
                return End::Unusable;
            }
            let newer = self
                .usable(&current)
                .filter(|newer| !newer.same_token(live));
            let due = newer.as_ref().map(|_| {
                let spread = || Instant::now() + self.spread(MOVES);
                *moves.get_or_insert_with(spread)
            });
            let item = tokio::select! {
                item = stream.next() => item,
                _ = slot.changed() => continue,
                () = place.asked_back(), if !self.reading_on() => return End::PlaceAskedBack,
                () = until(due) => {
                    let permit = newer.as_ref().and_then(|newer| newer.gate.enter_at_once());
                    if let (Some(newer), Some(permit)) = (newer, permit) {
                        return End::Moves(newer, permit);
                    }
                    moves = Some(Instant::now() + MOVE_AGAIN);
                    continue;
                }
            };
            self.resume = Resume::After(stream.last_event_id().map(str::to_owned));
            match item {
                Ok(Some(item)) => self.take_in(item),
                Ok(None) => {
                    return End::Closed {
                        pause: stream.retry(),
                    };
                }
                Err(error) => {
                    tracing::debug!(run.uid = %self.entry.uid, error = %chain(&error), "event stream broke");
                    return End::Failed(Failure::from(&error));
                }
            }
        }
    }

    /// Only an event that is new is progress: a stream that repeats what is known and closes is asked for less
    /// and less often.
    fn take_in(&mut self, item: StreamItem) {
        let StreamItem::Event(event) = item else {
            tracing::warn!(run.uid = %self.entry.uid, "an event was larger than the contract file allows; reading the run instead");
            self.entry.with(|state| state.memory.feed.hint());
            self.wake();
            return;
        };
        let received = Received {
            id: event.id,
            kind: event.kind,
            data: event.data,
        };
        let contract = &self.ctx.config.contract;
        let new = self.entry.with(|state| {
            let new = state.memory.received(&received, contract, wall());
            if new {
                state.stream.ended = 0;
            }
            // What follows the end is written when the stream has ended.
            new.then(|| state.memory.last_events.reading_on())
        });
        if let Some(reading_on) = new {
            self.failures = 0;
            self.ctx.metrics.stream_events.inc();
            if !reading_on {
                self.wake();
            }
        }
    }

    /// A stream has ended. Returns the pause before the next, which grows as long as no new event arrives, also
    /// where a stream opens well and is closed at once.
    fn ended(&mut self, live: &Live, end: End) -> Duration {
        let (failure, asked) = match end {
            End::Unusable | End::Moves(..) => {
                self.shows(Stream::Closed);
                // The streams of all Runs end at the same moment here.
                return self.spread(SPREAD);
            }
            End::PlaceAskedBack => {
                self.shows(Stream::Waiting { since: now() });
                return Duration::ZERO;
            }
            End::Closed { pause } => {
                self.learn(Learned::StreamEnded(StreamEnd::Closed));
                (None, pause)
            }
            End::Failed(failure) => (Some(failure), None),
            // Only a stream that can't be opened says something about the Workspace.
            End::Refused(failure) => {
                self.ctx.suspect(&self.key, live.number, &failure);
                let last = if self.is_refusal(&failure) {
                    StreamEnd::Refused
                } else {
                    StreamEnd::Broken
                };
                self.learn(Learned::StreamEnded(last));
                (Some(failure), None)
            }
        };
        self.shows(Stream::Closed);
        self.broken = true;
        self.pause(failure.as_ref(), asked)
    }

    fn pause(&mut self, failure: Option<&Failure>, asked: Option<Duration>) -> Duration {
        let first = self.failures == 0;
        self.failures = self.failures.saturating_add(1);
        let retry_after = failure.and_then(|failure| failure.retry_after);
        let seed = backoff::seed(&self.entry.uid, self.failures);
        let backoff = backoff::delay(self.failures, retry_after, seed);
        let (reading_on, complete) = self.entry.with(|state| {
            let last = &state.memory.last_events;
            (last.reading_on(), last.complete())
        });
        let own = match failure {
            None if complete => AFTER_LAST.max(backoff),
            None if first => AFTER_END,
            Some(failure) if self.is_refusal(failure) => {
                let settings = &self.ctx.config.settings;
                let polls = (settings.poll_min, settings.poll_max);
                backoff::after_refusal(self.failures, polls, retry_after, seed)
            }
            _ => backoff,
        };
        let demanded = backoff::asked(retry_after).max(asked.unwrap_or_default());
        if reading_on {
            own.min(LAST_EVENTS_APART).max(demanded)
        } else if first && failure.is_none() {
            asked.unwrap_or(own)
        } else {
            own.max(demanded)
        }
    }

    /// Whether the service refused the stream. It is asked for again at the pace of polls; the Run is polled.
    fn is_refusal(&self, failure: &Failure) -> bool {
        let class = classify(failure, Call::Get, &self.ctx.config.contract);
        matches!(class, Class::Refused(_))
    }

    fn reading_on(&self) -> bool {
        self.entry
            .with(|state| state.memory.last_events.reading_on())
    }

    /// What policy sees of the stream; the Run is looked at if that is news.
    fn shows(&self, stream: Stream) {
        self.entry.with(|state| {
            state.streaming = match (state.streaming, stream) {
                // The mirror was fresh up to the first of them.
                (Stream::Waiting { since }, Stream::Waiting { .. }) => Stream::Waiting { since },
                (_, stream) => stream,
            };
        });
        self.wake();
    }

    fn learn(&self, news: Learned) {
        let with = Learning {
            contract: &self.ctx.config.contract,
            uid: &self.entry.uid,
            session: 0,
            now: now(),
            wall: wall(),
        };
        self.entry.with(|state| state.memory.learn(news, with));
    }

    /// A part of `over`, by the object.
    fn spread(&self, over: Duration) -> Duration {
        let thousandths = u32::try_from(backoff::seed(&self.entry.uid, 0) % 1000);
        over * thousandths.unwrap_or_default() / 1000
    }

    fn wake(&self) {
        self.ctx.runs.wake(&self.entry.namespace, &self.entry.name);
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Counts an open stream for as long as it lives, however it ends.
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
