//! What an observation amounts to: the questions that every branch of the policy asks.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{
    ConditionType, Intent, Reason, RunSpec, RunStatus, conditions,
    intent::{End, IntentRecord},
    limits::MAX_RETRY,
    names,
    run::DeletionPolicy,
    status::{Phase, Refusal},
};

use super::{
    Held, Observed, Session, WorkspaceView, backoff, body,
    classify::{self, Class},
    memory::{Memory, Trouble, later},
    recheck,
    rules::{Rule, holds},
    situation::Why,
    text::cut,
    tracked::{Tracker, tracked_by},
    wording,
};

/// The Runs of a Workspace whose pause has ended come back over this time.
const AFTER_PAUSE_MILLIS: u64 = 2000;

/// An observation, read.
pub(super) struct Facts<'a> {
    pub(super) o: &'a Observed<'a>,
    pub(super) uid: &'a str,
    record: IntentRecord,
    no_status: RunStatus,
}

/// The intent in force.
pub(super) enum Known<'a> {
    /// None was ever written for this uid.
    Nothing,
    /// This object's own, from the object or, if that was stripped, from memory.
    Own(&'a Intent),
    /// Another object's.
    Foreign,
    /// Edited by somebody.
    Unreadable,
}

impl<'a> Facts<'a> {
    pub(super) fn gather(o: &'a Observed<'a>) -> Self {
        let uid = o.run.metadata.uid.as_deref().unwrap_or_default();
        let annotations = o.run.metadata.annotations.as_ref();
        let annotation = annotations.and_then(|a| a.get(names::INTENT_ANNOTATION));
        let record = IntentRecord::read(annotation.map(String::as_str), uid);
        Self {
            o,
            uid,
            record,
            no_status: RunStatus::default(),
        }
    }

    pub(super) fn spec(&self) -> &'a RunSpec {
        &self.o.run.spec
    }

    pub(super) fn memory(&self) -> &'a Memory {
        self.o.memory
    }

    /// The stored status.
    pub(super) fn status(&self) -> &RunStatus {
        self.o.run.status.as_ref().unwrap_or(&self.no_status)
    }

    pub(super) fn generation(&self) -> i64 {
        self.o.run.metadata.generation.unwrap_or_default()
    }

    pub(super) fn intent(&self) -> Known<'_> {
        match (&self.record, &self.o.memory.intent) {
            (IntentRecord::Own(intent), _) => Known::Own(intent),
            (_, Some(intent)) if intent.uid == self.uid && holds(Rule::IntentRemembered) => {
                Known::Own(intent)
            }
            (IntentRecord::Absent, _) => Known::Nothing,
            (IntentRecord::Foreign, _) => Known::Foreign,
            (IntentRecord::Unreadable, _) => Known::Unreadable,
        }
    }

    pub(super) fn own_intent(&self) -> Option<&Intent> {
        match self.intent() {
            Known::Own(intent) => Some(intent),
            Known::Nothing | Known::Foreign | Known::Unreadable => None,
        }
    }

    /// Whether the annotation on the object itself is this object's.
    pub(super) fn intent_stands(&self) -> bool {
        matches!(self.record, IntentRecord::Own(_))
    }

    /// Whether this process may POST under the intent: it stands in the object, in this process's name,
    /// and this process knows that it wrote it. Without the last, an epoch whose write was never
    /// answered would borrow what is known of the one before.
    pub(super) fn owned(&self, intent: &Intent) -> bool {
        self.intent_stands()
            && intent.owner == self.o.settings.process
            && (intent.epoch == self.memory().submission.epoch || !holds(Rule::AnsweredWrite))
    }

    /// When the wall clock shows this time, by process time; now, if it has.
    pub(super) fn when(&self, wall: Timestamp) -> Timestamp {
        let wait = Duration::try_from(wall.duration_since(self.o.wall));
        later(self.o.now, wait.unwrap_or_default())
    }

    /// How long ago a stored time was. One that lies ahead was stored before the clock went back, and nothing
    /// waits until it gets there once more.
    pub(super) fn since(&self, stored: Timestamp) -> Duration {
        Duration::try_from(self.o.wall.duration_since(stored)).unwrap_or(Duration::MAX)
    }

    pub(super) fn deletion_requested_at(&self) -> Option<Timestamp> {
        self.o.run.metadata.deletion_timestamp.as_ref().map(|t| t.0)
    }

    pub(super) fn deleting(&self) -> bool {
        self.o.vanished || self.deletion_requested_at().is_some()
    }

    pub(super) fn orphaned(&self) -> bool {
        self.deleting()
            && self.spec().deletion_policy() == DeletionPolicy::Orphan
            && holds(Rule::Orphan)
    }

    /// Who would create this object again if its TTL deleted it.
    pub(super) fn kept_by(&self) -> Option<Tracker> {
        self.spec().ttl_seconds_after_finished?;
        tracked_by(&self.o.run.metadata)
    }

    pub(super) fn has_finalizer(&self) -> bool {
        let finalizers = self.o.run.metadata.finalizers.as_ref();
        finalizers.is_some_and(|f| f.iter().any(|f| f == names::FINALIZER))
    }

    /// The runId: from the status, else from the answer that is not stored yet, else from the intent.
    pub(super) fn run_id(&self) -> Option<&str> {
        self.trusted_status()
            .and_then(|s| s.run_id.as_deref())
            .or(self.o.memory.run_id.as_deref())
            .or(self.kept_end().and_then(|e| e.run_id.as_deref()))
    }

    /// How the Run ended, as its intent keeps it for the day when the status is lost; a status that names a run
    /// and a phase is not. Not believed by a process that wrote an intent or knows of a run itself, and has
    /// seen no end: whoever may edit the object can write one.
    fn kept_end(&self) -> Option<&End> {
        let memory = self.memory();
        let knows = memory.run_id.is_some() || memory.submission.epoch > 0;
        let status = self.status();
        let lost = status.run_id.is_none() || status.phase.is_none();
        let end = self.own_intent()?.end.as_ref();
        end.filter(|_| lost && (memory.ended || !knows))
    }

    /// The status, unless it came with an intent that belongs to another object.
    fn trusted_status(&self) -> Option<&RunStatus> {
        if matches!(self.intent(), Known::Foreign) && holds(Rule::ForeignStatus) {
            None
        } else {
            Some(self.status())
        }
    }

    /// Whether the Run has ended, by its status or, if that was lost, by its intent.
    pub(super) fn ended(&self) -> bool {
        let by_status = self
            .trusted_status()
            .and_then(|s| s.phase)
            .is_some_and(Phase::terminal);
        let by_intent = self.kept_end().is_some();
        by_status && holds(Rule::Terminal)
            || self.cancelled_copy()
            || by_intent && holds(Rule::EndKept)
    }

    /// A copy of another object that was cancelled before its own submission.
    fn cancelled_copy(&self) -> bool {
        matches!(self.intent(), Known::Foreign)
            && self.spec().cancelled()
            && self.status().phase == Some(Phase::Cancelled)
    }

    /// Whether the retry annotation has a value that was not acted on yet. One that came with a copied
    /// manifest, before this object was ever looked at, asked nothing of it.
    pub(super) fn new_retry(&self) -> bool {
        let Some(value) = self.retry_annotation() else {
            return false;
        };
        let copied = matches!(self.intent(), Known::Foreign) && self.status().phase.is_none();
        let handled = self.status().handled_retry.as_ref() == Some(&value)
            || self
                .own_intent()
                .is_some_and(|i| i.retry.as_ref() == Some(&value));
        !(copied || handled && holds(Rule::RetryOnce))
    }

    /// The retry annotation's value; of one too long to be kept, its hash.
    pub(super) fn retry_annotation(&self) -> Option<String> {
        let annotations = self.o.run.metadata.annotations.as_ref()?;
        let value = annotations.get(names::RETRY_ANNOTATION)?;
        Some(if cut(value, MAX_RETRY).len() == value.len() {
            value.clone()
        } else {
            format!("sha256:{}", body::sha256(value.as_bytes()))
        })
    }

    pub(super) fn key(&self) -> String {
        let namespace = self.o.run.metadata.namespace.as_deref().unwrap_or_default();
        body::idempotency_key(self.spec(), namespace, self.uid)
    }

    pub(super) fn session(&self) -> Option<&'a Session> {
        match self.o.workspace {
            WorkspaceView::Ready(session) => Some(session),
            WorkspaceView::Unknown | WorkspaceView::Missing | WorkspaceView::NotReady { .. } => {
                None
            }
        }
    }

    /// Whether it is proved that no run exists for this object (docs/design.md, "In doubt").
    pub(super) fn not_created(&self) -> bool {
        match self.intent() {
            Known::Nothing => true,
            Known::Foreign => holds(Rule::ForeignFrees),
            Known::Unreadable => false,
            Known::Own(intent) => self.refusal_proves(intent) || self.owner_knows(intent),
        }
    }

    fn refusal_proves(&self, intent: &Intent) -> bool {
        let refusal = self.status().refusal.as_ref();
        refusal.is_some_and(|r| r.not_created && answers(r, intent))
    }

    fn owner_knows(&self, intent: &Intent) -> bool {
        self.owned(intent) && self.knows_none_made()
    }

    /// Whether what this process knows of its own POSTs, and of the bytes, proves that they made no run.
    fn knows_none_made(&self) -> bool {
        let refused_bytes = self
            .trouble(classify::Call::Create)
            .is_some_and(|t| classify::refuses_the_bytes(&t.failure, t.class));
        self.memory().submission.made_none() || refused_bytes
    }

    /// The failures in a row of `call`.
    pub(super) fn trouble(&self, call: classify::Call) -> Option<&'a Trouble> {
        self.memory().trouble(call)
    }

    /// When the next attempt of a failed call is due, by process time. A 401 waits for another session besides, see
    /// [`Facts::unauthorized`]: the first one is worth a try at once, those after it back off, or a
    /// service that verifies a token and refuses its calls would be asked in circles. What the service refused is
    /// asked again at the polls' pace, and so is a create in doubt.
    pub(super) fn next_attempt(&self, trouble: &Trouble) -> Timestamp {
        let refused = || later(trouble.at, self.after_refusal(trouble));
        match trouble.class {
            Class::Unauthorized if trouble.count <= 1 => trouble.at,
            Class::Refused(_) | Class::Final(_) => refused(),
            Class::Violation if trouble.call == classify::Call::Get => refused(),
            Class::Unauthorized | Class::Retry | Class::InProgress | Class::Violation => {
                trouble.next
            }
        }
    }

    fn after_refusal(&self, trouble: &Trouble) -> Duration {
        let settings = self.o.settings;
        backoff::after_refusal(
            trouble.count,
            (settings.poll_min, settings.poll_max),
            trouble.failure.retry_after,
            backoff::seed(self.uid, trouble.count),
        )
    }

    /// Whether a failure is the business of the Workspace, which will say so itself.
    pub(super) fn unauthorized(&self) -> bool {
        let session = self.session().map_or(0, |s| s.number);
        let refused = |t: &Trouble| t.class == Class::Unauthorized && session <= t.session;
        holds(Rule::NewSession) && self.memory().troubles.iter().any(refused)
    }

    /// When the service may have forgotten the key of this intent, by the wall clock.
    pub(super) fn key_forgotten_at(&self, intent: &Intent) -> Timestamp {
        let retention = self.o.contract.key_retention_seconds();
        let written = self.written().filter(|_| holds(Rule::AgeAsWritten));
        let written = written.map_or(intent.time, |own| own.time);
        later(intent.time.min(written), Duration::from_secs(retention))
    }

    /// The intent as this process wrote it, where that has a word beside the one that stands in the
    /// object: it is the same one, or a run may have been made under it. Another process never moves a
    /// submission in doubt, so whatever differs then is somebody's edit.
    pub(super) fn written(&self) -> Option<&Intent> {
        let stands = self.own_intent()?;
        self.memory().intent.as_ref().filter(|own| {
            let made_some = self.memory().run_id.is_some() || !self.knows_none_made();
            own.uid == self.uid && (own.epoch == stands.epoch || made_some)
        })
    }

    /// Why the mirror was stale, as long as nothing was read since the Workspace was Ready again.
    pub(super) fn still_stale(&self) -> Option<Why> {
        let session = self.session().map(|s| s.number);
        let seen = self.memory().seen.as_ref().map(|s| s.session);
        if seen.is_some() && seen == session {
            return None;
        }
        wording::stale_as_said(self)
    }

    /// When a trouble of the Workspace that began at `since` is said, if it is too early now: most troubles are
    /// over before.
    pub(super) fn not_said_yet(&self, since: Timestamp) -> Option<Timestamp> {
        let said_at = recheck::said_at(self.uid, since);
        (said_at > self.o.now).then_some(said_at)
    }

    /// When to look again where the Workspace's calls are paused: spread, or all its Runs would come at
    /// the same moment.
    pub(super) fn pause_over(&self) -> Option<Timestamp> {
        let Some(Held::Paused { until }) = self.o.held else {
            return None;
        };
        let spread = backoff::seed(self.uid, 0) % AFTER_PAUSE_MILLIS;
        Some(later(until, Duration::from_millis(spread)))
    }

    /// Why the mirror is stale where a call is due and has to wait; as the status said it, until the call
    /// was made.
    pub(super) fn held_back(&self) -> Option<Why> {
        match self.o.held {
            Some(held) => Some(wording::held_back(self, held)),
            None => wording::stale_as_said(self).filter(|why| why.reason == Reason::RateLimited),
        }
    }

    /// Whether the object's age under this intent passes what the service remembers of keys.
    pub(super) fn key_forgotten(&self, intent: &Intent) -> bool {
        self.key_forgotten_at(intent) <= self.o.wall && holds(Rule::KeyRetention)
    }

    /// The reason of the Finished condition, which says how a Run ended.
    pub(super) fn end_reason(&self) -> Option<Reason> {
        let finished = conditions::find(&self.status().conditions, ConditionType::Finished)?;
        Reason::ALL
            .iter()
            .copied()
            .find(|r| r.as_str() == finished.reason)
    }
}

/// Whether a refusal speaks of the POSTs under this intent: it answers for its own epoch alone.
pub(super) fn answers(refusal: &Refusal, intent: &Intent) -> bool {
    refusal.epoch == intent.epoch || !holds(Rule::RefusalOfEpoch)
}
