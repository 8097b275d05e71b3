//! The event streams: starts and ends one task per followed Run.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;

use crate::api::status::ResolvedWorkspace;
use crate::controller::{
    context::Context,
    state::{
        runs::{RunEntry, State},
        workspaces::WorkspaceState,
    },
};
use crate::decide::{Follow, Report, Stream};
use crate::service::RunId;

use super::{stream_reader::StreamReader, writes::Decided};

/// Opens, keeps or closes the stream as policy decided. A task uses only sessions of the Run's place.
pub(crate) fn follow(ctx: &Arc<Context>, entry: &Arc<RunEntry>, decided: &Decided) {
    let open = |place| open(ctx, entry, decided, place);
    match decided.turn.follow {
        Follow::Keep => {}
        Follow::Close => entry.close_stream(),
        // Policy has just found this session to be one of the Run's place.
        Follow::Open => open(decided.workspace.view.place()),
        Follow::Finish => {
            if !entry.with(|state| state.run.memory.last_events.reading_on()) {
                entry.record(&ctx.config.contract, Report::ReadingOn);
                entry.wake_stream.notify_waiters();
            }
            // After a start the Workspace is not known yet; the status names the run's place.
            let status = decided.run.status.as_ref();
            let place = status.and_then(|s| s.workspace.as_ref());
            open(place);
        }
    }
}

fn open(
    ctx: &Arc<Context>,
    entry: &Arc<RunEntry>,
    decided: &Decided,
    place: Option<&ResolvedWorkspace>,
) {
    let status = decided.run.status.as_ref();
    let run_id = status.and_then(|s| s.run_id.as_deref());
    let (Some(Ok(run_id)), Some(place)) = (run_id.map(RunId::parse), place) else {
        return;
    };
    let mirrored = status.and_then(|s| s.last_event_id.clone());
    let received = |state: &mut State| state.run.memory.event_buffer.cursor().map(str::to_owned);
    let cursor = entry.with(received).or(mirrored);
    let read = |failures| {
        let reader = StreamReader {
            ctx: Arc::clone(ctx),
            entry: Arc::clone(entry),
            key: decided.key.clone(),
            place: shared(place, &decided.workspace),
            run_id,
            failures,
            opened_before: false,
            broken: false,
            cursor,
        };
        Box::new(reader).read_streams()
    };
    let ctx = Arc::clone(ctx);
    // One that ended unasked: policy has the Run followed again.
    let on_end = move |entry: &RunEntry, panicked| {
        if ctx.shutdown.is_cancelled() {
            return;
        }
        if panicked {
            ctx.metrics.panicked("run");
        }
        tracing::error!(
            k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid, panicked,
            "the task that follows a Run's events ended; restarting it"
        );
        ctx.enqueue_run(&entry.namespace, &entry.uid);
    };
    start(entry, read, on_end);
}

/// One copy for all Runs of the Workspace's place.
fn shared(place: &ResolvedWorkspace, workspace: &WorkspaceState) -> Arc<ResolvedWorkspace> {
    let same = workspace.place.as_ref().filter(|known| ***known == *place);
    same.map_or_else(|| Arc::new(place.clone()), Arc::clone)
}

/// Starts the task of a Run's stream; false if one is running. `work` takes the number of tasks before it that ended
/// unasked. If this one does too, `on_end` is told whether it panicked.
fn start<F>(
    entry: &Arc<RunEntry>,
    work: impl FnOnce(u32) -> F,
    on_end: impl FnOnce(&RunEntry, bool) + Send + 'static,
) -> bool
where
    F: Future<Output = ()> + Send + 'static,
{
    let host = Arc::clone(entry);
    entry.with(|state| {
        let ended = state.stream.ended;
        state.stream.start(|number| {
            let on_end = move |panicked| {
                let unasked = host.with(|state| {
                    let unasked = state.stream.end(number);
                    if unasked {
                        state.streaming = Stream::Closed;
                    }
                    unasked
                });
                if unasked {
                    on_end(&host, panicked);
                }
            };
            // An async block would hold the work twice: as it was given, and as it is awaited.
            let work = AssertUnwindSafe(work(ended)).catch_unwind();
            tokio::spawn(work.map(move |result| on_end(result.is_err()))).abort_handle()
        })
    })
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;
    use crate::controller::state::runs::TrackedRuns;

    fn entry() -> Arc<RunEntry> {
        let run = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
            "metadata": {"name": "train", "namespace": "team", "uid": "u"},
            "spec": {"workload": {"image": "i"}},
        });
        TrackedRuns::default().entry(&serde_json::from_value(run).unwrap())
    }

    fn begin(
        entry: &Arc<RunEntry>,
        told: &mpsc::UnboundedSender<bool>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> bool {
        let told = told.clone();
        let on_end = move |_: &RunEntry, panicked| told.send(panicked).unwrap();
        let started = start(entry, |_| work, on_end);
        if started {
            entry.with(|state| state.streaming = Stream::Open);
        }
        started
    }

    /// Proves: P-stream-places
    #[tokio::test]
    async fn a_stream_task_that_panics_or_ends_can_be_replaced() {
        let entry = entry();
        let (tell, mut told) = mpsc::unbounded_channel();
        assert!(begin(&entry, &tell, async { panic!("the test's own") }));
        assert_eq!(told.recv().await, Some(true));
        assert_eq!(
            entry.with(|s| (s.streaming, s.stream.ended)),
            (Stream::Closed, 1)
        );
        assert!(begin(&entry, &tell, async {}));
        assert_eq!(told.recv().await, Some(false));
        assert_eq!(
            entry.with(|s| (s.streaming, s.stream.ended)),
            (Stream::Closed, 2)
        );
        assert!(begin(&entry, &tell, pending()));
        assert!(!begin(&entry, &tell, pending()), "one at a time");
        assert_eq!(entry.with(|s| s.streaming), Stream::Open);
    }

    /// Proves: P-stream-places
    #[tokio::test]
    async fn the_end_of_a_closed_task_does_not_end_the_next() {
        let entry = entry();
        let (tell, mut told) = mpsc::unbounded_channel();
        let (gone, mut went) = mpsc::channel::<()>(1);
        assert!(begin(&entry, &tell, async move {
            let _gone = gone;
            pending::<()>().await;
        }));
        entry.close_stream();
        assert!(begin(&entry, &tell, pending()));
        assert_eq!(went.recv().await, None, "the first has ended");
        assert_eq!(
            entry.with(|s| (s.streaming, s.stream.ended)),
            (Stream::Open, 0)
        );
        assert!(told.try_recv().is_err());
    }

    /// There is one for each active Run.
    /// Proves: P-files
    #[test]
    fn the_task_of_an_open_stream_takes_less_than_900_bytes() {
        fn size<T, F>(_: fn(T) -> F) -> usize {
            size_of::<F>()
        }
        let size = size(StreamReader::read_streams);
        assert!(size < 900, "{size}");
        let with_its_stream = size + size_of::<crate::service::EventStream>();
        assert!(with_its_stream < 3 * 1024, "{with_its_stream}");
    }
}
