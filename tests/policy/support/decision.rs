//! The decision for an observation, and the object after it was written.

use run_operator::{
    api::{EventReason, Intent, RunStatus},
    decide::{
        Decision, Effect, EventDraft, Follow, Inputs, Report, decide, stream::StreamEnd, turn::Step,
    },
};

use super::{CONTRACT, Case};

impl Case {
    /// What is decided now; nothing once its object is deleted and cleaned up.
    pub(crate) fn decide(&self) -> Decision {
        if self.over() {
            return Decision::quiet();
        }
        self.observe(decide)
    }

    /// Asks policy something about what is observed now.
    pub(crate) fn observe<T>(&self, ask: impl FnOnce(&Inputs<'_>) -> T) -> T {
        ask(&Inputs {
            run: &self.run,
            choice: &self.choice(),
            workspace: &self.view,
            rules: Some(&self.rules),
            namespace_allowed: self.namespace_allowed,
            memory: &self.tracked.memory,
            key_holder: self.key_holder.as_deref(),
            needs_slot: self.needs_slot,
            deleted_without_release: self.tracked.deleted(),
            stream: self.stream,
            call_delay: self.call_delay,
            contract: &CONTRACT,
            settings: &self.settings,
            now: self.now,
            wall: self.wall(),
        })
    }

    /// Stores the decided status, if any, and decides again until there is none to store.
    pub(crate) fn settle(mut self) -> Self {
        for _ in 0..4 {
            self.reads_object();
            let mut written = self.clone();
            let turn = written.next();
            if !matches!(turn.step, Step::WriteStatus { .. }) {
                return self;
            }
            written.carry_out(&turn.step, true);
            written.tell(&turn.events);
            self = written;
        }
        panic!("the status did not settle: {:#?}", self.run.status);
    }

    /// Reads the stream for the last events, where it is followed for them, until the service closes it.
    pub(crate) fn read_on(self) -> Self {
        if self.decide().follow != Follow::Finish {
            return self;
        }
        self.stream(Report::ReadingOn)
            .stream(Report::StreamOpened)
            .stream(Report::StreamEnded(StreamEnd::Closed))
    }

    /// The decided Events that this process has not published.
    pub(crate) fn news(&self) -> Vec<EventDraft> {
        let mut events = self.decide().events;
        events.retain(|event| !self.published.contains(&event_name(event)));
        events
    }

    /// Publishes Events: this process each name once, and the API server refuses those that it has.
    pub(crate) fn tell(&mut self, events: &[EventDraft]) {
        for event in events {
            let name = event_name(event);
            let known = self.events.iter().any(|n| event_name(n) == name);
            if self.published.insert(name) && !known {
                self.events.push(event.clone());
            }
        }
    }

    /// The reasons of the Events, in their order.
    pub(crate) fn reasons(&self) -> Vec<&'static str> {
        self.events.iter().map(|n| n.reason.as_str()).collect()
    }

    /// The status once everything decided was written.
    pub(crate) fn settled(&self) -> RunStatus {
        self.clone().settle().run.status.unwrap_or_default()
    }

    pub(crate) fn effect(&self) -> Option<Effect> {
        self.clone().settle().read_on().settle().decide().effect
    }

    /// The one word for what is done next.
    pub(crate) fn does(&self) -> &'static str {
        name(self.effect().as_ref())
    }

    /// Reason of Stalled, if it holds.
    pub(crate) fn stalled(&self) -> Option<String> {
        condition(&self.settled(), "Stalled").map(|c| c.1)
    }
}

fn event_name(event: &EventDraft) -> (EventReason, String) {
    (event.reason, event.occasion.clone())
}

/// The intent that is written next, whether its finalizer is written with it, and whether it begins with the
/// proof.
pub(crate) fn intent_of(case: &Case) -> (Intent, bool, bool) {
    match case.effect() {
        Some(Effect::WriteIntent {
            intent,
            finalizer,
            clean,
        }) => (*intent, finalizer, clean),
        other => panic!("not an intent: {other:?}"),
    }
}

pub(crate) fn name(effect: Option<&Effect>) -> &'static str {
    match effect {
        None => "nothing",
        Some(Effect::WriteIntent { .. }) => "intent",
        Some(Effect::Submit { .. }) => "submit",
        Some(Effect::Refresh { .. }) => "refresh",
        Some(Effect::Cancel { .. }) => "cancel",
        Some(Effect::Release { .. }) => "release",
        Some(Effect::Delete) => "delete",
    }
}

/// Status and reason of a condition.
pub(crate) fn condition(status: &RunStatus, kind: &str) -> Option<(String, String)> {
    let condition = status.conditions.iter().find(|c| c.type_ == kind)?;
    Some((condition.status.clone(), condition.reason.clone()))
}
