//! Properties of a call when it is sent.

use run_operator::api::{
    Phase, intent::IntentRecord, run::DeletionPolicy, status::ResolvedWorkspace,
};
use run_operator::util::sha256;

use super::{Broken, may_come, quiescence::finally};
use crate::object::{OTHER_URL, Object, mark};
use crate::state::{Home, State};

/// A mark of a place, whichever object has it.
pub(crate) fn spot(place: &ResolvedWorkspace) -> u64 {
    let ResolvedWorkspace {
        kind,
        name,
        base_url,
        identity,
        ..
    } = place;
    mark(&format!("{kind:?} {name} {base_url} {identity:?}"))
}

/// The caller, its token, and its reason for the call.
pub(crate) struct Sending<'a> {
    pub(crate) process: u8,
    pub(crate) object: &'a Object,
    pub(crate) vanished: bool,
    /// It saw or wrote the end, or sees the one that the operator kept in the intent.
    pub(crate) ended: bool,
    pub(crate) place: ResolvedWorkspace,
}

impl Sending<'_> {
    fn over(&self) -> bool {
        let status = self.object.run.status.clone().unwrap_or_default();
        let denied = status
            .conditions
            .iter()
            .any(|c| c.reason == "RunNotFound" && c.type_ == "Finished");
        let ended = self.ended || status.phase.is_some_and(Phase::terminal);
        ended && !(denied && (self.vanished || self.object.deleting()))
    }

    /// True if the object shows that the service refused it for good, nothing can have made a run, and no
    /// person set a retry. (In doubt the same POST is repeated.)
    fn refused(&self, s: &State) -> bool {
        let status = self.object.run.status.clone().unwrap_or_default();
        let asked = self.object.wish() != status.handled_retry.as_ref() || self.object.deleting();
        let uid = self.object.uid;
        let doubted = s.service.runs.iter().any(|r| r.uid == uid) || may_come(s, uid);
        !doubted && !asked && finally(&status)
    }

    /// A POST is sent.
    pub(crate) fn post(&self, s: &mut State, key: &str, body: &[u8]) {
        let name = format!("p{}", self.process);
        let Some(intent) = self.object.run.intent_record().own() else {
            s.breaks(Broken::UnownedPost);
            return;
        };
        let going = self.vanished || self.object.deleting();
        let ghost = s.ghost(self.object.uid);
        let again = ghost.answered.take() == Some(self.process);
        ghost.first = !ghost.posted && intent.epoch == 1;
        ghost.posted = true;
        ghost.retried.clone_from(&intent.retry);
        let wrote = ghost.owners & (1 << self.process) != 0;
        if again && !going {
            s.breaks(Broken::AskedAgain);
        }
        if intent.owner != name || !wrote {
            s.breaks(Broken::UnownedPost);
        }
        if sha256(body) != intent.sha256 || intent.key != key {
            s.breaks(Broken::OtherBytes);
        }
        let here = spot(&self.place);
        let pinned = [
            s.ghost(self.object.uid).pinned,
            Some(spot(&intent.workspace)),
        ];
        if pinned != [Some(here); 2] {
            s.breaks(Broken::OtherPlace);
        }
        if self.over() {
            s.breaks(Broken::CallAfterEnd);
        }
        if !going && !s.world.allowed || self.refused(s) {
            s.breaks(Broken::Unasked);
        }
        if self.object.run.spec.idempotency_key.is_some() {
            let holder = |o: &Object| {
                o.uid != self.object.uid
                    && !o.run.ended()
                    && matches!(o.run.intent_record(), IntentRecord::Own(_))
            };
            if s.live.iter().flatten().any(|o| holder(o)) {
                s.breaks(Broken::KeyShared);
            }
        }
    }

    /// A run is read or cancelled.
    pub(crate) fn about(&self, s: &mut State, run: usize, cancel: bool) {
        let found = s.service.runs.get(run).map(|r| (r.home, r.uid));
        let home = found.map(|f| f.0);
        let shared = self.object.run.spec.idempotency_key.is_some();
        // A run of somebody else, or none that was ever made.
        if found.is_none_or(|f| f.1 != self.object.uid && !shared) {
            s.breaks(Broken::Unasked);
        }
        let here = |home: Home| {
            let identity = Some(format!("ws-{}", home.identity));
            identity == self.place.identity && home.moved == (self.place.base_url == OTHER_URL)
        };
        if home.is_some_and(|home| !here(home)) {
            s.breaks(Broken::OtherPlace);
        }
        if self.over() {
            s.breaks(Broken::CallAfterEnd);
        }
        let spec = &self.object.run.spec;
        let going = self.vanished || self.object.deleting();
        let orphan = going && spec.deletion_policy() == DeletionPolicy::Orphan;
        let deadline = spec.active_deadline_seconds.is_some() || s.ghost(self.object.uid).overdue;
        let asked = going || spec.cancelled() || deadline;
        if cancel && (orphan || !asked) {
            s.breaks(Broken::Unasked);
        }
    }
}
