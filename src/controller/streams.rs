//! The event streams, one task a followed Run (rule 2).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Semaphore;

use crate::decide::{
    answer::Failure,
    backoff,
    classify::{Call, Class, classify},
    feed::Received,
};
use crate::service::{EventStream, RunId, StreamItem};

use super::{
    context::Context,
    objects::Entry,
    registry::{Key, Live, Suspicion},
    watch::chain,
};

/// Pause after a stream ended well and the service named none: it ends when the run does, most often,
/// and then nobody opens it again.
const AFTER_END: Duration = Duration::from_secs(1);

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
    /// It broke or could not be opened.
    Failed(Failure),
    /// The Workspace has another token now, or none.
    NewSession,
}

/// Sees to it that the Run's events are followed.
pub fn open(ctx: &Arc<Context>, entry: &Arc<Entry>, key: &Key, run_id: &str) {
    let Ok(run_id) = RunId::parse(run_id) else {
        return;
    };
    entry.with(|state| {
        if state.stream.is_some() {
            return;
        }
        let task = follow(Arc::clone(ctx), Arc::clone(entry), key.clone(), run_id);
        state.stream = Some(tokio::spawn(task).abort_handle());
    });
}

async fn follow(ctx: Arc<Context>, entry: Arc<Entry>, key: Key, run_id: RunId) {
    // Beyond the cap a Run is polled until a stream becomes free.
    let Ok(_permit) = ctx.streams.permits.acquire().await else {
        return;
    };
    let mut failures = 0_u32;
    let mut opened_before = false;
    while let Some(live) = live_session(&ctx, &key).await {
        let end = connect(
            &ctx,
            &entry,
            &key,
            &run_id,
            &live,
            &mut opened_before,
            &mut failures,
        )
        .await;
        entry.with(|state| state.streaming = false);
        ctx.runs.wake(&entry.namespace, &entry.name);
        let pause = match end {
            End::NewSession => Duration::ZERO,
            End::Closed { pause } => pause.unwrap_or(AFTER_END),
            End::Failed(failure) => {
                failures = failures.saturating_add(1);
                report(&ctx, &key, &live, &failure);
                after_failure(&ctx, &entry, &failure, failures)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = ctx.shutdown.cancelled() => return,
        }
    }
}

/// Waits for a verified session; `None` at shutdown.
async fn live_session(ctx: &Context, key: &Key) -> Option<Arc<Live>> {
    let mut slot = ctx.registry.subscribe(key);
    tokio::select! {
        slot = slot.wait_for(|slot| slot.live.is_some()) => slot.ok().and_then(|slot| slot.live.clone()),
        () = ctx.shutdown.cancelled() => None,
    }
}

async fn connect(
    ctx: &Context,
    entry: &Entry,
    key: &Key,
    run_id: &RunId,
    live: &Live,
    opened_before: &mut bool,
    failures: &mut u32,
) -> End {
    let cursor = entry.with(|state| {
        let mirrored = state
            .latest
            .as_ref()
            .and_then(|run| run.status.as_ref()?.last_event_id.clone());
        state.memory.feed.cursor().map(str::to_owned).or(mirrored)
    });
    let opened = live
        .client
        .run_events(&live.credentials, run_id, cursor.as_deref())
        .await;
    let stream = match opened {
        Ok(stream) => stream,
        Err(error) => return End::Failed(Failure::from(&error)),
    };
    if std::mem::replace(opened_before, true) {
        ctx.metrics.stream_reconnects.inc();
    }
    *failures = 0;
    entry.with(|state| state.streaming = true);
    let _open = OpenGauge::new(ctx);
    read(ctx, entry, key, live, stream).await
}

async fn read(
    ctx: &Context,
    entry: &Entry,
    key: &Key,
    live: &Live,
    mut stream: EventStream,
) -> End {
    let mut slot = ctx.registry.subscribe(key);
    let other =
        |slot: &super::registry::Slot| slot.live.as_ref().is_none_or(|l| l.number != live.number);
    loop {
        let item = tokio::select! {
            item = stream.next() => item,
            _ = slot.wait_for(other) => return End::NewSession,
        };
        match item {
            Ok(Some(StreamItem::Event(event))) => {
                let id = event
                    .id
                    .or_else(|| stream.last_event_id().map(str::to_owned));
                take_in(
                    ctx,
                    entry,
                    &Received {
                        id,
                        kind: event.kind,
                        data: event.data,
                    },
                );
            }
            Ok(Some(StreamItem::Discarded)) => {
                tracing::warn!(run.uid = %entry.uid, "an event was larger than the contract file allows; reading the run instead");
                entry.with(|state| state.memory.feed.hint());
                ctx.runs.wake(&entry.namespace, &entry.name);
            }
            Ok(None) => {
                return End::Closed {
                    pause: stream.retry(),
                };
            }
            Err(error) => {
                tracing::debug!(run.uid = %entry.uid, error = %chain(&error), "event stream broke");
                return End::Failed(Failure::from(&error));
            }
        }
    }
}

fn take_in(ctx: &Context, entry: &Entry, event: &Received) {
    let state_named = ctx.config.contract.event_state_of(&event.data);
    let new = entry.with(|state| {
        let mirrored = state
            .memory
            .seen
            .as_ref()
            .and_then(|seen| seen.state.clone());
        state.memory.feed.receive(
            event,
            state_named.as_deref(),
            mirrored.as_deref(),
            Timestamp::now(),
        )
    });
    if new {
        ctx.metrics.stream_events.inc();
        ctx.runs.wake(&entry.namespace, &entry.name);
    }
}

fn report(ctx: &Context, key: &Key, live: &Live, failure: &Failure) {
    if let Some(suspicion) = Suspicion::of(failure)
        && ctx.registry.suspect(key, live.number, suspicion)
    {
        ctx.workspaces.wake(&key.namespace, &key.name);
    }
}

/// A stream that the service refuses for good is asked for at the slowest pace; the Run is polled.
fn after_failure(ctx: &Context, entry: &Entry, failure: &Failure, failures: u32) -> Duration {
    let backoff = backoff::delay(
        failures,
        failure.retry_after,
        backoff::seed(&entry.uid, failures),
    );
    match classify(failure, Call::Get, &ctx.config.contract) {
        Class::Retry | Class::Unauthorized | Class::Violation => backoff,
        Class::Final(_) => backoff.max(ctx.config.settings.poll_max),
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
