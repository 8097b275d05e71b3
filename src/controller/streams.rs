//! The event streams, one task a followed Run (rule 2).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::status::ResolvedWorkspace;
use crate::decide::{
    answer::Failure,
    backoff,
    classify::{Call, Class, classify},
    feed::Received,
};
use crate::service::{EventStream, RunId, StreamItem};

use super::{
    context::{Context, wall},
    gate::Permit,
    objects::Entry,
    registry::{Key, Live, Slot},
    watch::chain,
    window::Outcome,
};

/// Pause after a stream ended well and the service named none: it ends when the run does, most often,
/// and then nobody opens it again.
const AFTER_END: Duration = Duration::from_secs(1);

/// The streams of a Workspace are opened with a new token over this time, not all at once.
const SPREAD: Duration = Duration::from_secs(1);

/// The bound on open streams.
pub struct Streams {
    permits: Arc<Semaphore>,
}

impl Streams {
    /// At most `max` streams at the same time.
    pub fn new(max: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(max)),
        }
    }
}

/// How a stream ended.
enum End {
    /// The service closed it.
    Closed { pause: Option<Duration> },
    /// It broke.
    Failed(Failure),
    /// It could not be opened.
    Refused(Failure),
    /// The Workspace has another token now, or none, or stands for another place.
    NewSession,
}

/// Sees to it that the Run's events are followed, by sessions of the place alone that policy has just
/// found to be the Run's: the one that `slot` stands for.
pub fn open(ctx: &Arc<Context>, entry: &Arc<Entry>, key: &Key, slot: &Slot, run_id: &str) {
    let (Ok(run_id), Some(place)) = (RunId::parse(run_id), slot.view.place()) else {
        return;
    };
    entry.with(|state| {
        if state.stream.is_some() {
            return;
        }
        let follower = Follower::new(
            Arc::clone(ctx),
            Arc::clone(entry),
            key.clone(),
            place.clone(),
            run_id,
        );
        state.stream = Some(tokio::spawn(follower.follow()).abort_handle());
    });
}

/// Where a stream resumes.
enum Resume {
    /// Where the object says, or what an earlier task received.
    AsMirrored,
    /// After this event; after none, if the service has reset its ids.
    After(Option<String>),
}

/// Follows the events of one Run.
struct Follower {
    ctx: Arc<Context>,
    entry: Arc<Entry>,
    key: Key,
    /// Where the run lives; a session of another place is not used.
    place: ResolvedWorkspace,
    run_id: RunId,
    /// Failures in a row.
    failures: u32,
    opened_before: bool,
    /// Whether the last stream broke, was closed or refused.
    broken: bool,
    /// Where this task's last stream said to resume.
    resume: Resume,
}

impl Follower {
    fn new(
        ctx: Arc<Context>,
        entry: Arc<Entry>,
        key: Key,
        place: ResolvedWorkspace,
        run_id: RunId,
    ) -> Self {
        Self {
            ctx,
            entry,
            key,
            place,
            run_id,
            failures: 0,
            opened_before: false,
            broken: false,
            resume: Resume::AsMirrored,
        }
    }

    async fn follow(mut self) {
        let ctx = Arc::clone(&self.ctx);
        while let Some((place, permit)) = self.turn().await
            && ctx.leading.holds()
        {
            // Another token may have come meanwhile, or none that serves: that is not waited for here.
            let Some(live) = self.usable(&ctx.registry.slot(&self.key)) else {
                continue;
            };
            let end = self.connect(&live, permit).await;
            drop(place);
            self.entry.with(|state| state.streaming = false);
            self.wake();
            let pause = self.pause(&live, end);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = ctx.shutdown.cancelled() => return,
            }
        }
    }

    /// Waits for a place among the open streams and for the turn to make a call; `None` at shutdown.
    /// Beyond the cap a Run is polled until a stream becomes free. A stream that waits for its Workspace
    /// or its turn holds no place, else one Workspace's trouble would close the streams of all.
    async fn turn(&self) -> Option<(OwnedSemaphorePermit, Permit)> {
        let places = &self.ctx.streams.permits;
        loop {
            self.live_session().await?;
            let place = Arc::clone(places).acquire_owned().await.ok()?;
            let Some(live) = self.usable(&self.ctx.registry.slot(&self.key)) else {
                continue;
            };
            let gate = Arc::clone(&live.gate);
            if let Some(permit) = gate.enter_at_once() {
                return Some((place, permit));
            }
            drop(place);
            let permit = tokio::select! {
                permit = gate.wait(&self.entry.namespace) => permit,
                () = self.ctx.shutdown.cancelled() => return None,
            };
            if let Ok(place) = Arc::clone(places).try_acquire_owned() {
                return Some((place, permit));
            }
        }
    }

    /// Waits for a verified session of the run's place; `None` at shutdown.
    async fn live_session(&self) -> Option<Arc<Live>> {
        let mut slot = self.ctx.registry.subscribe(&self.key);
        tokio::select! {
            slot = slot.wait_for(|slot| self.usable(slot).is_some()) => slot.ok().and_then(|slot| self.usable(&slot)),
            () = self.ctx.shutdown.cancelled() => None,
        }
    }

    /// The session, if it is one of the run's place. View and session of a slot change together.
    fn usable(&self, slot: &Slot) -> Option<Arc<Live>> {
        slot.live.clone().filter(|_| slot.view.serves(&self.place))
    }

    /// Opens the stream and reads it to its end. The Workspace's gate is held for the opening alone.
    async fn connect(&mut self, live: &Live, permit: Permit) -> End {
        if std::mem::take(&mut self.broken) {
            self.ctx.reconnects(&self.key);
        }
        let cursor = self.cursor();
        let opened = live
            .client
            .run_events(&live.credentials, &self.run_id, cursor.as_deref())
            .await
            .map_err(|error| Failure::from(&error));
        permit.ended(Outcome::of(opened.as_ref()));
        let stream = match opened {
            Ok(stream) => stream,
            Err(failure) => return End::Refused(failure),
        };
        if std::mem::replace(&mut self.opened_before, true) {
            self.ctx.metrics.stream_reconnects.inc();
        }
        self.entry.with(|state| state.streaming = true);
        let ctx = Arc::clone(&self.ctx);
        let _open = OpenGauge::new(&ctx);
        self.read(live, stream).await
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

    async fn read(&mut self, live: &Live, mut stream: EventStream) -> End {
        let mut slot = self.ctx.registry.subscribe(&self.key);
        let place = self.place.clone();
        let other = |slot: &Slot| {
            let same = slot.live.as_ref().is_some_and(|l| l.number == live.number);
            !same || !slot.view.serves(&place)
        };
        loop {
            let item = tokio::select! {
                item = stream.next() => item,
                _ = slot.wait_for(other) => return End::NewSession,
            };
            self.resume = Resume::After(stream.last_event_id().map(str::to_owned));
            if let Ok(Some(_)) = &item {
                self.failures = 0;
            }
            match item {
                Ok(Some(StreamItem::Event(event))) => {
                    self.take_in(&Received {
                        id: event.id,
                        kind: event.kind,
                        data: event.data,
                    });
                }
                Ok(Some(StreamItem::Discarded)) => {
                    tracing::warn!(run.uid = %self.entry.uid, "an event was larger than the contract file allows; reading the run instead");
                    self.entry.with(|state| state.memory.feed.hint());
                    self.wake();
                }
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

    fn take_in(&self, event: &Received) {
        let named = self.ctx.config.contract.event_state_of(&event.data);
        let new = self.entry.with(|state| {
            let mirrored = state
                .memory
                .seen
                .as_ref()
                .and_then(|seen| seen.state.clone());
            state
                .memory
                .feed
                .receive(event, named.as_deref(), mirrored.as_deref(), wall())
        });
        if new {
            self.ctx.metrics.stream_events.inc();
            self.wake();
        }
    }

    /// The pause before the next try. It grows as long as no event arrives, also where a stream opens
    /// well and is closed at once.
    fn pause(&mut self, live: &Live, end: End) -> Duration {
        let (failure, asked) = match end {
            // The streams of all Runs end at the same moment here.
            End::NewSession => return self.spread(),
            End::Closed { pause } => (None, Some(pause.unwrap_or(AFTER_END))),
            End::Failed(failure) => (Some(failure), None),
            // Only a stream that can't be opened says something about the Workspace.
            End::Refused(failure) => {
                self.ctx.suspect(&self.key, live.number, &failure);
                (Some(failure), None)
            }
        };
        self.broken = true;
        let first = self.failures == 0;
        self.failures = self.failures.saturating_add(1);
        let retry_after = failure.as_ref().and_then(|failure| failure.retry_after);
        let seed = backoff::seed(&self.entry.uid, self.failures);
        let backoff = backoff::delay(self.failures, retry_after, seed);
        match (failure, asked) {
            (None, Some(asked)) if first => asked,
            (None, asked) => backoff.max(asked.unwrap_or_default()),
            (Some(failure), _) => self.unless_final(&failure, backoff),
        }
    }

    /// A stream that the service refuses for good is asked for at the slowest pace; the Run is polled.
    fn unless_final(&self, failure: &Failure, backoff: Duration) -> Duration {
        let config = &self.ctx.config;
        match classify(failure, Call::Get, &config.contract) {
            Class::Retry | Class::Unauthorized | Class::Violation => backoff,
            Class::Final(_) => backoff.max(config.settings.poll_max),
        }
    }

    fn spread(&self) -> Duration {
        let thousandths = u32::try_from(backoff::seed(&self.entry.uid, 0) % 1000);
        SPREAD * thousandths.unwrap_or_default() / 1000
    }

    fn wake(&self) {
        self.ctx.runs.wake(&self.entry.namespace, &self.entry.name);
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
