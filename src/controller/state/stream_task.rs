//! The task that follows a Run's event stream, as part of the Run's entry.

use tokio::task::AbortHandle;

/// The task that follows a Run's events.
#[derive(Default)]
pub struct StreamTask {
    /// Number of the Run's latest task.
    number: u64,
    /// Whether that task is running.
    active: bool,
    /// Handle that aborts it.
    task: Option<AbortHandle>,
    /// Tasks in a row that ended unasked.
    pub(crate) ended: u32,
}

impl StreamTask {
    /// Begins a new task. `None` if one is running.
    pub(crate) fn begin(&mut self) -> Option<u64> {
        if self.active {
            return None;
        }
        self.active = true;
        self.number += 1;
        Some(self.number)
    }

    /// Attaches the handle of the task with this number. Returns the handle if the task is no longer wanted.
    pub(crate) fn attach(&mut self, number: u64, task: AbortHandle) -> Option<AbortHandle> {
        if self.active && self.number == number {
            self.task = Some(task);
            return None;
        }
        Some(task)
    }

    /// Records the end of the task with this number. Returns whether it ended unasked.
    pub(crate) fn end(&mut self, number: u64) -> bool {
        let unasked = self.active && self.number == number;
        if unasked {
            self.active = false;
            self.task = None;
            self.ended = self.ended.saturating_add(1);
        }
        unasked
    }

    /// Marks that no task is wanted. Returns the handle of the running one.
    pub(crate) fn close(&mut self) -> Option<AbortHandle> {
        self.active = false;
        self.task.take()
    }
}
