//! The event streams: one task for each Run that is followed, and what is known of it.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::api::{Run, status::ResolvedWorkspace};
use crate::decide::{Follow, Learned, Stream};
use crate::service::RunId;

use super::{
    context::Context,
    follower::Follower,
    objects::Entry,
    reconcile::learn,
    registry::{Key, Slot},
};

/// The task that follows a Run's events.
#[derive(Default)]
pub struct Following {
    /// Counts the tasks of this Run.
    number: u64,
    /// Whether the task of this number is at work.
    active: bool,
    /// Ends it.
    task: Option<AbortHandle>,
    /// Ends its pause.
    hurry: Arc<Notify>,
    /// Tasks in a row that ended by themselves.
    pub(super) ended: u32,
}

impl Following {
    /// A new task begins; nothing, if one is at work.
    fn begin(&mut self) -> Option<u64> {
        if self.active {
            return None;
        }
        self.active = true;
        self.number += 1;
        Some(self.number)
    }

    /// The task of this number can be ended from now on. Returns the handle if it is not wanted any more.
    fn attach(&mut self, number: u64, task: AbortHandle) -> Option<AbortHandle> {
        if self.active && self.number == number {
            self.task = Some(task);
            return None;
        }
        Some(task)
    }

    /// The task of this number has ended. Returns whether it did so by itself.
    fn end(&mut self, number: u64) -> bool {
        let by_itself = self.active && self.number == number;
        if by_itself {
            self.active = false;
            self.task = None;
            self.ended = self.ended.saturating_add(1);
        }
        by_itself
    }

    /// No task is wanted. Returns how to end the one that is at work.
    pub(super) fn close(&mut self) -> Option<AbortHandle> {
        self.active = false;
        self.task.take()
    }
}

/// Does what policy says about the stream. A task uses sessions of the Run's place only.
pub(super) fn follow(
    ctx: &Arc<Context>,
    entry: &Arc<Entry>,
    key: &Key,
    slot: &Slot,
    run: &Run,
    wish: Follow,
) {
    let status = run.status.as_ref();
    let run_id = status.and_then(|s| s.run_id.as_deref());
    match wish {
        Follow::Keep => {}
        Follow::Close => entry.close_stream(),
        // The session that policy has just found to be one of the Run's place.
        Follow::Open => open(ctx, entry, key, slot.view.place(), run_id),
        Follow::Finish => {
            if entry.with(|state| !state.memory.last_events.reading_on()) {
                learn(ctx, entry, slot, Learned::ReadingOn);
                entry.with(|state| state.stream.hurry.notify_waiters());
            }
            // After a start the Workspace is not known yet; the status says where the run lives.
            let place = status.and_then(|s| s.workspace.as_ref());
            open(ctx, entry, key, place, run_id);
        }
    }
}

fn open(
    ctx: &Arc<Context>,
    entry: &Arc<Entry>,
    key: &Key,
    place: Option<&ResolvedWorkspace>,
    run_id: Option<&str>,
) {
    let (Some(Ok(run_id)), Some(place)) = (run_id.map(RunId::parse), place) else {
        return;
    };
    let begun = entry.with(|state| {
        let number = state.stream.begin()?;
        Some((number, Arc::clone(&state.stream.hurry), state.stream.ended))
    });
    let Some((number, hurry, ended)) = begun else {
        return;
    };
    let follower = Follower::new(
        Arc::clone(ctx),
        Arc::clone(entry),
        key.clone(),
        place.clone(),
        run_id,
        hurry,
        ended,
    );
    let ctx = Arc::clone(ctx);
    start(entry, number, follower.follow(), move |entry, panicked| {
        went(&ctx, entry, panicked);
    });
}

/// A task has ended by itself: policy has the Run followed again.
fn went(ctx: &Context, entry: &Entry, panicked: bool) {
    if ctx.shutdown.is_cancelled() {
        return;
    }
    if panicked {
        ctx.metrics.panicked("run");
    }
    tracing::error!(
        k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid, panicked,
        "the task that follows a Run's events ended; starting another"
    );
    ctx.runs.wake(&entry.namespace, &entry.name);
}

/// Starts a task; not under the entry's lock, which its end takes. `went` is called when it has ended by
/// itself, and told whether it panicked.
fn start(
    entry: &Arc<Entry>,
    number: u64,
    work: impl Future<Output = ()> + Send + 'static,
    went: impl FnOnce(&Entry, bool) + Send + 'static,
) {
    let guard = Guard {
        entry: Arc::clone(entry),
        number,
        went: Some(Box::new(went)),
    };
    let task = tokio::spawn(async move {
        let _guard = guard;
        work.await;
    });
    let unwanted = entry.with(|state| state.stream.attach(number, task.abort_handle()));
    if let Some(task) = unwanted {
        task.abort();
    }
}

/// Sees to it that the state says so when a task has ended, however it did.
struct Guard {
    entry: Arc<Entry>,
    number: u64,
    went: Option<Went>,
}

type Went = Box<dyn FnOnce(&Entry, bool) + Send>;

impl Drop for Guard {
    fn drop(&mut self) {
        let by_itself = self.entry.with(|state| {
            let by_itself = state.stream.end(self.number);
            if by_itself {
                state.streaming = Stream::Closed;
            }
            by_itself
        });
        if let Some(went) = self.went.take().filter(|_| by_itself) {
            went(&self.entry, std::thread::panicking());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;
    use crate::controller::objects::Objects;

    fn entry() -> Arc<Entry> {
        let run = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
            "metadata": {"name": "train", "namespace": "team", "uid": "u"},
            "spec": {"workload": {"image": "i"}},
        });
        Objects::default().entry(&serde_json::from_value(run).unwrap())
    }

    /// Starts a task, unless one is at work; who ends by itself is told.
    fn begin(
        entry: &Arc<Entry>,
        told: &mpsc::UnboundedSender<bool>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> bool {
        let Some(number) = entry.with(|state| state.stream.begin()) else {
            return false;
        };
        entry.with(|state| state.streaming = Stream::Open);
        let told = told.clone();
        start(entry, number, work, move |_, panicked| {
            told.send(panicked).unwrap();
        });
        true
    }

    #[tokio::test]
    async fn a_task_that_panics_or_ends_is_seen_to_have_ended_and_another_begins() {
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

    #[tokio::test]
    async fn the_end_of_a_task_that_was_closed_says_nothing_of_the_next() {
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
}
