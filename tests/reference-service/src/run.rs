//! One run: its derived state, its events, and how both change.

use serde_json::{Value, json};

use crate::plan::{
    CANCELLED, CANCELLING, Does, Millis, OnCancel, Plan, SUCCEEDED, Step, is_terminal,
};
use crate::problem::Problem;

/// Events that one run keeps. Only the control API can come near it.
pub(crate) const MAX_EVENTS: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// Absent only where the control API asks for an event without an id.
    pub(crate) id: Option<String>,
    pub(crate) kind: String,
    pub(crate) data: String,
}

/// Time of the next step of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// There is no next step.
    Idle,
    Due(Millis),
    /// Stopped by the control API with so much time left.
    Held(Millis),
}

/// The requests that reached this run, by operation.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// The request id of every POST that was answered with this run, the first included.
    pub(crate) posts: Vec<String>,
    pub(crate) gets: u64,
    pub(crate) cancels: u64,
    pub(crate) streams: u64,
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: String,
    /// Order of creation, from 1.
    pub(crate) number: u64,
    pub(crate) workspace: String,
    pub(crate) key: String,
    /// Fingerprint of the token that created it.
    pub(crate) token: String,
    /// The create request's body, as it came.
    pub(crate) body: Value,
    pub(crate) state: String,
    pub(crate) created: Millis,
    pub(crate) updated: Millis,
    pub(crate) finished: Option<Millis>,
    pub(crate) cancel_requested: Option<Millis>,
    pub(crate) plan: Plan,
    pub(crate) timer: Timer,
    pub(crate) events: Vec<Event>,
    /// The states that it entered, and when.
    pub(crate) entered: Vec<(String, Millis)>,
    /// Answered with 404; its key still refers to it.
    pub(crate) deleted: bool,
    pub(crate) received: Received,
}

impl Run {
    /// The Run resource as the API shows it.
    pub(crate) fn resource(&self, workspace_id: &str) -> Value {
        let mut run = json!({
            "runId": self.id,
            "workspaceId": workspace_id,
            "state": self.state,
            "workload": self.body["workload"],
            "provider": self.body["provider"],
            "region": self.body["region"],
            "createdAt": timestamp(self.created),
            "updatedAt": timestamp(self.updated),
        });
        if let Some(at) = self.finished {
            run["finishedAt"] = timestamp(at).into();
        }
        if let Some(at) = self.cancel_requested {
            run["cancelRequestedAt"] = timestamp(at).into();
        }
        run
    }

    pub(crate) fn image(&self) -> Option<&str> {
        self.body["workload"]["image"].as_str()
    }

    /// Adds an event of the given type; the data is the run's id, the time and `extra`.
    fn record(&mut self, kind: &str, extra: (&str, &str), now: Millis) {
        let (field, value) = extra;
        let data = json!({"runId": self.id, field: value, "at": timestamp(now)}).to_string();
        let id = self.next_event_id();
        self.push(Event {
            id: Some(id),
            kind: kind.to_owned(),
            data,
        });
    }

    /// Opaque to clients: the run's id is in it, so that an id of another run is not mistaken.
    pub(crate) fn next_event_id(&self) -> String {
        format!("{}-{:05}", self.id, self.events.len() + 1)
    }

    pub(crate) fn push(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS {
            self.events.push(event);
        }
    }

    pub(crate) fn start(&mut self, now: Millis) {
        let state = self.state.clone();
        self.entered.push((state.clone(), now));
        self.record("run.created", ("state", &state), now);
    }

    /// Enters a state, with an event unless `silently`.
    pub(crate) fn enter(&mut self, state: &str, silently: bool, now: Millis) {
        state.clone_into(&mut self.state);
        self.entered.push((state.to_owned(), now));
        self.updated = now;
        self.finished = is_terminal(state).then_some(now);
        if is_terminal(state) {
            self.plan.steps.clear();
            self.timer = Timer::Idle;
        }
        if !silently {
            self.record("run.state", ("state", state), now);
        }
    }

    /// Takes the next step of the plan, whatever the timer's time. False when there is none.
    pub(crate) fn step(&mut self, now: Millis) -> bool {
        let Some(step) = self.plan.steps.pop_front() else {
            self.timer = Timer::Idle;
            return false;
        };
        match step.does {
            Does::Enter(state) => self.enter(&state, false, now),
            Does::Log(message) => self.record("run.log", ("message", &message), now),
        }
        let held = matches!(self.timer, Timer::Held(_));
        self.wind(now, held);
        true
    }

    /// Sets the timer for the next step.
    pub(crate) fn wind(&mut self, now: Millis, held: bool) {
        self.timer = match self.plan.steps.front() {
            None => Timer::Idle,
            Some(step) if held => Timer::Held(step.wait),
            Some(step) => Timer::Due(now + step.wait),
        };
    }

    pub(crate) fn hold(&mut self, now: Millis) {
        if let Timer::Due(at) = self.timer {
            self.timer = Timer::Held(at.saturating_sub(now));
        }
    }

    pub(crate) fn release(&mut self, now: Millis) {
        if let Timer::Held(left) = self.timer {
            self.timer = Timer::Due(now + left);
        }
    }

    /// Cancels: idempotent, and without effect on a run that has ended.
    pub(crate) fn cancel(&mut self, now: Millis) -> Result<(), Problem> {
        if is_terminal(&self.state) || self.state == CANCELLING {
            return Ok(());
        }
        let end = match self.plan.on_cancel {
            OnCancel::Refuse => {
                return Err(Problem::conflict(
                    "cancel_refused",
                    "This run refuses to be cancelled",
                ));
            }
            OnCancel::Ignore => return Ok(()),
            OnCancel::IgnoreFirst => {
                self.plan.on_cancel = OnCancel::Confirm;
                return Ok(());
            }
            OnCancel::Confirm => Some(CANCELLED),
            OnCancel::Finish => Some(SUCCEEDED),
            OnCancel::Stuck => None,
        };
        let held = matches!(self.timer, Timer::Held(_));
        let wait = self.plan.cancel_time;
        self.plan.steps = end
            .map(|state| Step {
                wait,
                does: Does::Enter(state.to_owned()),
            })
            .into_iter()
            .collect();
        self.cancel_requested = Some(now);
        self.enter(CANCELLING, false, now);
        self.wind(now, held);
        Ok(())
    }

    /// The position of a stream that was left after this event: behind it, or, when the id is not known, at
    /// the first event (rule 2).
    pub(crate) fn position_after(&self, last_event_id: Option<&str>) -> usize {
        last_event_id
            .and_then(|id| {
                self.events
                    .iter()
                    .rposition(|event| event.id.as_deref() == Some(id))
            })
            .map_or(0, |position| position + 1)
    }
}

/// RFC 3339, in UTC, to the millisecond.
pub(crate) fn timestamp(at: Millis) -> String {
    i64::try_from(at)
        .ok()
        .and_then(|at| jiff::Timestamp::from_millisecond(at).ok())
        .map_or_else(String::new, |at| format!("{at:.3}"))
}
