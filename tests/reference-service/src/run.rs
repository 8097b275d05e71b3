//! One run: its derived state, its events, and how both change.

use serde_json::{Value, json};

use crate::plan::{CANCELLED, CANCELLING, Does, Millis, OnCancel, Plan, Step, is_terminal};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) data: String,
}

/// Time of the next step of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// There is no next step.
    Idle,
    Due(Millis),
    /// It waits for the control API.
    Held,
}

/// The requests that reached this run, by operation.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// POSTs that were answered with this run, the first included.
    pub(crate) posts: u64,
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

    /// Adds an event of the given type; the data is the run's id, the time and `extra`.
    fn record(&mut self, kind: &str, extra: (&str, &str), now: Millis) {
        let (field, value) = extra;
        let data = json!({"runId": self.id, field: value, "at": timestamp(now)}).to_string();
        let id = self.next_event_id();
        self.events.push(Event {
            id,
            kind: kind.to_owned(),
            data,
        });
    }

    /// Opaque to clients: the run's id is in it, so that an id of another run is not mistaken.
    pub(crate) fn next_event_id(&self) -> String {
        format!("{}-{:05}", self.id, self.events.len() + 1)
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
        self.wind(now, self.timer == Timer::Held);
        true
    }

    /// Sets the timer for the next step.
    pub(crate) fn wind(&mut self, now: Millis, held: bool) {
        self.timer = match self.plan.steps.front() {
            None => Timer::Idle,
            Some(_) if held => Timer::Held,
            Some(step) => Timer::Due(now + step.wait),
        };
    }

    pub(crate) fn hold(&mut self) {
        if let Timer::Due(_) = self.timer {
            self.timer = Timer::Held;
        }
    }

    /// Cancels: idempotent, and without effect on a run that has ended.
    pub(crate) fn cancel(&mut self, now: Millis) {
        if is_terminal(&self.state) || self.state == CANCELLING {
            return;
        }
        let step = Step {
            wait: self.plan.cancel_time,
            does: Does::Enter(CANCELLED.to_owned()),
        };
        self.plan.steps = match self.plan.on_cancel {
            OnCancel::IgnoreFirst => {
                self.plan.on_cancel = OnCancel::Confirm;
                return;
            }
            OnCancel::Confirm => [step].into(),
            OnCancel::Stuck => [].into(),
        };
        let held = self.timer == Timer::Held;
        self.cancel_requested = Some(now);
        self.enter(CANCELLING, false, now);
        self.wind(now, held);
    }

    /// The position of a stream that was left after this event: behind it, or, when the id is not known, at
    /// the first event (rule 2).
    pub(crate) fn position_after(&self, last_event_id: Option<&str>) -> usize {
        last_event_id
            .and_then(|id| self.events.iter().rposition(|event| event.id == id))
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
