//! The facts of a decision. A Run's place is in `status.workspace` once there is a runID: the API server rejects every
//! change of it. Before that, the intent in the object and the one that this process wrote must both name it: an edit
//! can make a Run wait, but can't send it elsewhere (after a restart only the object's is left: docs/limits.md). Never
//! the Workspace's status or the session: they hold the present state, not the agreed one.

use std::ops::Deref;
use std::time::Duration;

use jiff::Timestamp;

use crate::api::{
    ConditionType, Intent, Reason, RunDefaults, RunSpec, RunStatus, conditions, finalizer,
    intent::{End, IntentRecord},
    limits::MAX_RETRY,
    names,
    run::DeletionPolicy,
    status::{Phase, ResolvedWorkspace},
};
use crate::util::sha256;

use super::{
    claims::{lost, proved_by_refusal},
    decision::{Decision, Effect},
    delays::{self, later},
    events::EventDraft,
    failure::{Call, CallFailures, Class},
    inputs::{CallDelay, Inputs, Session, elsewhere},
    memory::RefusedWrite,
    request,
    truncate::fits,
};

pub(crate) struct Facts<'a> {
    inputs: &'a Inputs<'a>,
    pub(crate) uid: &'a str,
    /// The intent in force: from the object or, if an edit removed it there, from memory.
    pub(crate) intent: IntentRecord,
    /// Whether the object's annotation holds an intent of this object.
    pub(crate) intent_stands: bool,
    no_status: RunStatus,
}

impl<'a> Deref for Facts<'a> {
    type Target = Inputs<'a>;

    fn deref(&self) -> &Inputs<'a> {
        self.inputs
    }
}

impl<'a> Facts<'a> {
    pub(crate) fn of(inputs: &'a Inputs<'a>) -> Self {
        let uid = inputs.run.metadata.uid.as_deref().unwrap_or_default();
        let (intent, intent_stands) = inputs.memory.intent_in_force(inputs.run);
        Self {
            inputs,
            uid,
            intent,
            intent_stands,
            no_status: RunStatus::default(),
        }
    }

    pub(crate) fn spec(&self) -> &'a RunSpec {
        &self.run.spec
    }

    pub(crate) fn status(&self) -> &RunStatus {
        self.run.status.as_ref().unwrap_or(&self.no_status)
    }

    pub(crate) fn namespace(&self) -> &str {
        self.run.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn generation(&self) -> i64 {
        self.run.metadata.generation.unwrap_or_default()
    }

    /// Process time at which the wall clock shows `wall`; now, if that has passed.
    pub(crate) fn when(&self, wall: Timestamp) -> Timestamp {
        let wait = Duration::try_from(wall.duration_since(self.wall));
        later(self.now, wait.unwrap_or_default())
    }

    /// Time since a stored time. One in the future is from before the clock was set back: nothing waits for it.
    pub(crate) fn since(&self, stored: Timestamp) -> Duration {
        Duration::try_from(self.wall.duration_since(stored)).unwrap_or(Duration::MAX)
    }

    pub(crate) fn deletion_requested_at(&self) -> Option<Timestamp> {
        self.run.metadata.deletion_timestamp.as_ref().map(|t| t.0)
    }

    pub(crate) fn deleting(&self) -> bool {
        self.deleted_without_release || self.deletion_requested_at().is_some()
    }

    pub(crate) fn orphaned(&self) -> bool {
        self.deleting() && self.spec().deletion_policy() == DeletionPolicy::Orphan
    }

    pub(crate) fn has_finalizer(&self) -> bool {
        finalizer::present(&self.run.metadata)
    }

    /// The refusal of a write whose next attempt is ahead.
    pub(crate) fn write_waits(&self) -> Option<&'a RefusedWrite> {
        let refused = self.inputs.memory.refused_write.as_ref();
        refused.filter(|refused| refused.again > self.now && !self.deleted_without_release)
    }

    pub(crate) fn key(&self) -> String {
        request::idempotency_key(self.spec(), self.namespace(), self.uid)
    }
}

impl Facts<'_> {
    pub(crate) fn own_intent(&self) -> Option<&Intent> {
        match &self.intent {
            IntentRecord::Own(intent) => Some(intent),
            IntentRecord::Absent | IntentRecord::Foreign | IntentRecord::Unreadable => None,
        }
    }

    pub(crate) fn is_copy(&self) -> bool {
        self.intent == IntentRecord::Foreign
    }

    /// Whether this process may POST under the intent: it is in the object, names this process as owner, and this
    /// process got the answer to its write: else the proof of one epoch would be used for the next.
    pub(crate) fn owned_by_this_process(&self, intent: &Intent) -> bool {
        self.intent_stands
            && intent.owner == self.settings.process
            && intent.epoch == self.memory.submission.epoch
    }

    pub(crate) fn written(&self) -> Option<&Intent> {
        self.memory.written(self.own_intent()?)
    }

    /// The Workspace's defaults: its present ones, until the intent fixes them and the status keeps them.
    pub(crate) fn run_defaults(&self) -> RunDefaults {
        let status = self.status();
        let kept = status.run_id.is_some() || status.phase.is_some_and(Phase::terminal);
        let defaults = match self.written().or(self.own_intent()) {
            _ if kept => status.run_defaults,
            Some(intent) => intent.run_defaults,
            None => self.rules.and_then(|rules| rules.run_defaults),
        };
        defaults.unwrap_or_default().within_bounds()
    }

    pub(crate) fn deadline_seconds(&self) -> Option<i64> {
        let own = self.spec().active_deadline_seconds;
        own.or(self.run_defaults().active_deadline_seconds)
    }

    pub(crate) fn ttl_seconds(&self) -> Option<i32> {
        let own = self.spec().ttl_seconds_after_finished;
        own.or(self.run_defaults().ttl_seconds_after_finished)
    }

    pub(crate) fn key_forgotten_at(&self, intent: &Intent) -> Timestamp {
        let retention = self.contract.key_retention_seconds();
        // An edit makes no key younger.
        let own = self.written();
        let time = own.map_or(intent.time, |own| own.time.min(intent.time));
        later(time, Duration::from_secs(retention))
    }

    /// No POST is sent once the service may have forgotten its key. Assumed: no request outlives `keyRetentionSeconds`.
    pub(crate) fn key_may_be_forgotten(&self, intent: &Intent) -> bool {
        self.key_forgotten_at(intent) <= self.wall
    }

    /// Whether the retry annotation has a value that was not acted on yet. One copied with a manifest is no request.
    pub(crate) fn new_retry(&self) -> bool {
        let Some(value) = self.retry_annotation() else {
            return false;
        };
        let copied = self.is_copy() && !self.status().is_observed();
        let begun = self.own_intent().and_then(|i| i.retry.as_ref());
        let handled = [self.status().handled_retry.as_ref(), begun];
        !copied && !handled.contains(&Some(&value))
    }

    /// The retry annotation's value, or its hash if it is too long to be stored.
    pub(crate) fn retry_annotation(&self) -> Option<String> {
        let annotations = self.run.metadata.annotations.as_ref()?;
        let value = annotations.get(names::RETRY_ANNOTATION)?;
        Some(if fits(value, MAX_RETRY) {
            value.clone()
        } else {
            format!("sha256:{}", sha256(value.as_bytes()))
        })
    }

    /// Whether it is proved that no run exists for this object (docs/design.md, "In doubt").
    pub(crate) fn not_created(&self) -> bool {
        match &self.intent {
            // Another object's intent is no reason for doubt.
            IntentRecord::Absent | IntentRecord::Foreign => true,
            IntentRecord::Unreadable => false,
            IntentRecord::Own(intent) => {
                proved_by_refusal(self.status(), intent)
                    || self.owned_by_this_process(intent) && self.memory.knows_none_made()
            }
        }
    }

    /// The runID: from the status, else from the answer that is not stored yet, else from the intent.
    pub(crate) fn run_id(&self) -> Option<&str> {
        self.trusted_status()
            .and_then(|s| s.run_id.as_deref())
            .or(self.memory.run_id.as_deref())
            .or(self.kept_end().and_then(|e| e.run_id.as_deref()))
    }

    /// The end stored in the intent in case the status is lost. Anyone who may edit the object can write one: it is not
    /// believed if this process wrote an intent or knows of a run, and has read no end.
    fn kept_end(&self) -> Option<&End> {
        let memory = self.memory;
        let knows = memory.run_id.is_some() || memory.submission.epoch > 0;
        let end = self.own_intent()?.end.as_ref();
        end.filter(|_| lost(self.status()) && (memory.ended || !knows))
    }

    /// The status, unless it came with an intent that belongs to another object.
    fn trusted_status(&self) -> Option<&RunStatus> {
        Some(self.status()).filter(|_| !self.is_copy())
    }

    /// Whether the Run has ended, by its status or, if that was lost, by its intent. Terminal is absorbing.
    pub(crate) fn ended(&self) -> bool {
        let phase = self.trusted_status().and_then(|s| s.phase);
        phase.is_some_and(Phase::terminal) || self.cancelled_copy() || self.kept_end().is_some()
    }

    fn cancelled_copy(&self) -> bool {
        self.is_copy() && self.spec().cancelled() && self.status().phase == Some(Phase::Cancelled)
    }

    pub(crate) fn end_reason(&self) -> Option<Reason> {
        let finished = conditions::find(&self.status().conditions, ConditionType::Finished)?;
        Reason::named(&finished.reason)
    }
}

impl<'a> Facts<'a> {
    pub(crate) fn failures_of(&self, call: Call) -> Option<&'a CallFailures> {
        self.memory.failures_of(call)
    }

    /// Time of the next attempt, by process time. A 401 also waits for another session.
    pub(crate) fn next_attempt(&self, failed: &CallFailures) -> Timestamp {
        if failed.repeats_at_once() {
            return failed.at;
        }
        if !failed.repeats_at_polls() {
            return failed.next;
        }
        let (count, retry_after) = (failed.count, failed.last.retry_after());
        let polls = (self.settings.poll_min, self.settings.poll_max);
        let seed = delays::seed(self.uid, count);
        let pause = delays::after_refusal(count, polls, retry_after, seed);
        later(failed.at, pause)
    }

    /// Whether a call got a 401 and waits for another session; the Workspace's status shows the error.
    pub(crate) fn awaits_another_session(&self) -> bool {
        let session = self.workspace.session().map_or(0, |s| s.number);
        let refused = |failed: &CallFailures| {
            failed.last.class == Class::Unauthorized && session <= failed.session
        };
        self.memory.failures.iter().any(refused)
    }

    /// Requeue time while the Workspace's calls are paused, spread over its Runs.
    pub(crate) fn pause_over(&self) -> Option<Timestamp> {
        let Some(CallDelay::Paused { until }) = self.call_delay else {
            return None;
        };
        let spread = delays::seed(self.uid, 0) % delays::AFTER_PAUSE_MILLIS;
        Some(later(until, Duration::from_millis(spread)))
    }
}

/// How the session's place differs from the Run's, and that one.
pub(crate) fn moved<'a>(
    facts: &'a Facts<'_>,
    session: &Session,
) -> Option<(Reason, &'a ResolvedWorkspace)> {
    pins(facts).find_map(|pin| elsewhere(pin, &session.resolved).map(|reason| (reason, pin)))
}

pub(crate) fn pins<'a>(facts: &'a Facts<'_>) -> impl Iterator<Item = &'a ResolvedWorkspace> {
    let status = facts.status();
    let stored = status
        .workspace
        .as_ref()
        .filter(|_| status.run_id.is_some());
    let before = stored.is_none().then(|| {
        let intents = facts.written().into_iter().chain(facts.own_intent());
        intents.map(|intent| &intent.workspace)
    });
    stored.into_iter().chain(before.into_iter().flatten())
}

pub(crate) fn release(facts: &Facts<'_>, events: Vec<EventDraft>) -> Decision {
    if !facts.has_finalizer() && !facts.deleted_without_release {
        return Decision::quiet();
    }
    Decision {
        events,
        ..Decision::act(Effect::Release { end: None })
    }
}
