//! Follows the events of one Run (rule 2): waits for a place, opens the stream, reads it, and reopens it from its
//! cursor.

mod connection;

use crate::api::{WorkspaceKey, status::ResolvedWorkspace};
use crate::clock::now;
use crate::controller::{
    context::Context,
    leader,
    state::{
        call_limiter::CallPermit,
        runs::RunEntry,
        stream_places::{QueuedStream, StreamPlace},
        workspaces::{ClientSession, WorkspaceState},
    },
};
use crate::decide::{
    Learned, Stream, delays,
    failure::FailedCall,
    stream::{self, Ended, StreamEnd},
};
use crate::service::RunId;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

/// Period over which a Workspace's streams are reopened after they lost their session.
const SPREAD: Duration = Duration::from_secs(1);
/// A longer wait for a place is shown, and the Run is polled more often.
const SHORT_WAIT: Duration = Duration::from_secs(2);

/// End of a stream. (A failure is boxed: the task of an open stream has room for its end.)
enum End {
    /// The service closed it.
    Closed { pause: Option<Duration> },
    /// The stream broke.
    Failed(Box<FailedCall>),
    /// The stream could not be opened.
    Refused(Box<FailedCall>),
    /// The stream moves to a newer token; the permit is for opening it there.
    Moves(Arc<ClientSession>, CallPermit),
    /// Another Run needs the place.
    PlaceAskedBack,
    /// The Workspace's token was rejected, or the Workspace now has another place.
    Unusable,
}

/// Position at which a stream resumes.
enum Resume {
    /// The position in memory or in the object's status.
    AsMirrored,
    /// After this event; from the beginning, if the service has reset its ids.
    After(Option<String>),
}

/// Follows the events of one Run.
pub(crate) struct Follower {
    ctx: Arc<Context>,
    entry: Arc<RunEntry>,
    key: WorkspaceKey,
    /// The place of the run; a session of another place is not used.
    place: Arc<ResolvedWorkspace>,
    run_id: RunId,
    /// Failures in a row, including those of earlier tasks.
    failures: u32,
    opened_before: bool,
    /// Whether the last stream broke, was closed or was refused.
    broken: bool,
    /// Position from which this task's next stream resumes.
    resume: Resume,
}

impl Follower {
    pub(crate) fn new(
        ctx: Arc<Context>,
        entry: Arc<RunEntry>,
        key: WorkspaceKey,
        place: Arc<ResolvedWorkspace>,
        run_id: RunId,
        failures: u32,
    ) -> Self {
        Self {
            ctx,
            entry,
            key,
            place,
            run_id,
            failures,
            opened_before: false,
            broken: false,
            resume: Resume::AsMirrored,
        }
    }

    /// Runs until shutdown or until it is aborted. (Boxed: a future holds its arguments twice.)
    pub(crate) async fn follow(mut self: Box<Self>) {
        let ctx = Arc::clone(&self.ctx);
        tokio::select! {
            () = self.streams() => {}
            () = ctx.shutdown.cancelled() => {}
        }
    }

    async fn streams(&mut self) {
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
            // Created before the pause is computed: a later hurry ends the pause, an earlier one doesn't.
            let hurried = entry.wake_stream.notified();
            let pause = self.ended(&session, end);
            tokio::select! {
                () = sleep(pause) => {}
                () = hurried => {}
            }
        }
    }

    /// Waits for a place and a permit. A stream that waits for its Workspace or its permit holds no place: otherwise
    /// one Workspace's outage would close the streams of all.
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
            let permit = queued.permit().await;
            if let Ok(place) = self.ctx.streams.ask(namespace) {
                return (place, permit);
            }
        }
    }

    /// Waits for a place. Meanwhile the Run is polled, which is shown unless the wait is short. For a Run that has
    /// ended it is shown at once: its last events can't be read.
    async fn wait_for_place(&self, queued: QueuedStream) -> StreamPlace {
        let quiet = if self.reading_on() {
            Duration::ZERO
        } else {
            SHORT_WAIT
        };
        let place = queued.place();
        tokio::pin!(place);
        if let Ok(place) = tokio::time::timeout(quiet, &mut place).await {
            return place;
        }
        self.set_stream(Stream::Waiting { since: now() });
        place.await
    }

    /// Waits for a verified session of the run's place.
    async fn wait_for_session(&self) {
        let mut workspace = self.ctx.workspaces.subscribe(&self.key);
        let usable = workspace.wait_for(|workspace| self.usable(workspace).is_some());
        if usable.await.is_err() {
            // The sender was dropped: the process ends.
            std::future::pending::<()>().await;
        }
    }

    /// The present session, if it is one of the run's place.
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

    /// Records the end of a stream. Returns the pause before the next one. It grows until a new event arrives, even if
    /// streams open and are closed at once.
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
            End::Closed { pause } => {
                self.learn(Learned::StreamEnded(StreamEnd::Closed));
                (None, pause)
            }
            End::Failed(failed) => (Some(failed), None),
            // Only a stream that can't be opened is evidence about the Workspace.
            End::Refused(failed) => {
                self.ctx.suspect(&self.key, session.number, &failed);
                let last = match failed.class.refusal() {
                    Some(_) => StreamEnd::Refused,
                    None => StreamEnd::Broken,
                };
                self.learn(Learned::StreamEnded(last));
                (Some(failed), None)
            }
        };
        self.set_stream(Stream::Closed);
        self.broken = true;
        self.pause(failed.as_deref(), asked)
    }

    fn pause(&mut self, failed: Option<&FailedCall>, asked: Option<Duration>) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let settings = &self.ctx.config.settings;
        self.entry.with(|state| {
            stream::pause(&Ended {
                failed,
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

    /// Sets the stream's state for policy, and has the Run reconciled.
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

    fn learn(&self, learned: Learned) {
        let with = self.entry.learning(&self.ctx.config.contract, 0);
        self.entry
            .with(|state| state.run.memory.learn(learned, with));
    }

    /// A part of `over` that depends on the object's uid.
    fn spread(&self, over: Duration) -> Duration {
        let thousandths = u32::try_from(delays::seed(&self.entry.uid, 0) % 1000);
        over * thousandths.unwrap_or_default() / 1000
    }

    fn enqueue(&self) {
        self.ctx
            .run_trigger
            .enqueue(&self.entry.namespace, &self.entry.uid);
    }
}
