//! The executor of one object, made of the controller's own parts: `TrackedRun`, `Decision::status_due` and
//! `MetadataChange`. Its API server carries out every write; the answers of the service are the caller's.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use run_operator::{
    api::Intent,
    decide::{
        Decision, Effect, Learned, Learning, Memory, WorkspaceView,
        failure::{Call, Failure, RunView},
        metadata_change::MetadataChange,
        tracked_run::{Cleanup, Presence, TrackedRun},
    },
};

use super::{CONTRACT, Case, UID};

impl Case {
    fn learning(&self) -> Learning<'static> {
        Learning {
            contract: &CONTRACT,
            uid: UID,
            session: match &self.view {
                WorkspaceView::Ready(session) => session.number,
                _ => 0,
            },
            now: self.now,
            wall: self.wall(),
        }
    }

    /// The object is deleted, and nothing more is done for it.
    pub(crate) fn over(&self) -> bool {
        self.tracked.presence() == Presence::Done
    }

    /// A reconcile begins, or a pass over a deleted object, and decides.
    pub(crate) fn begin(&mut self) -> Decision {
        let run = Arc::new(self.run.clone());
        let begun = if self.tracked.reconcilable() {
            self.tracked.begin_reconcile_of(run).is_some()
        } else {
            self.tracked.begin_reconcile()
        };
        assert!(begun, "something is in flight");
        self.decide()
    }

    /// It ends.
    pub(crate) fn end(&mut self) {
        self.tracked.end_reconcile();
        if self.deleted && !self.tracked.deleted() {
            self.missing();
        }
    }

    /// Writes the decided status and publishes its Events, if it is due.
    pub(crate) fn write_status(&mut self, decision: &Decision) -> bool {
        let Some(status) = decision.status_due(&self.run, self.tracked.deleted()) else {
            return false;
        };
        self.run.status = Some(status.clone());
        self.tracked.wrote(Arc::new(self.run.clone()));
        let with = self.learning();
        self.tracked.status_written(decision.shown, with);
        self.publish(decision);
        true
    }

    /// Publishes the decided Events.
    pub(crate) fn publish(&mut self, decision: &Decision) {
        self.tell(decision.events_due(self.tracked.deleted()));
    }

    /// Carries out an effect on the object. `heard`: its process gets the answer.
    pub(crate) fn write(&mut self, effect: &Effect, heard: bool) {
        match effect {
            Effect::WriteIntent {
                intent,
                finalizer,
                clean,
            } => {
                let change = MetadataChange::write_intent(&self.run, intent, *finalizer);
                change.expect("an intent").apply(&mut self.run.metadata);
                if heard {
                    self.tracked.wrote(Arc::new(self.run.clone()));
                    let with = self.learning();
                    self.tracked.intent_written(intent.clone(), *clean, with);
                }
            }
            Effect::Release { .. } if self.tracked.deleted() => self.tracked.finish(),
            Effect::Release { end } => {
                let change = MetadataChange::release(&self.run, end.as_ref()).expect("an intent");
                self.deleted = change.deletes(&self.run.metadata);
                change.apply(&mut self.run.metadata);
                if heard {
                    self.tracked.release_answered(Ok(self.deleted));
                }
                if heard && !self.deleted {
                    self.tracked.wrote(Arc::new(self.run.clone()));
                }
            }
            Effect::Delete => self.delete(),
            Effect::Submit { .. } | Effect::Refresh { .. } | Effect::Cancel { .. } => {
                panic!("no write: {effect:?}")
            }
        }
    }

    /// `kubectl delete`. Without a finalizer the object is deleted at once.
    pub(crate) fn delete(&mut self) {
        let wall = self.wall();
        let meta = &mut self.run.metadata;
        assert_eq!(meta.deletion_timestamp, None, "an object is deleted once");
        self.deleted = meta.finalizers.is_none();
        meta.deletion_timestamp = Some(Time(wall));
        meta.generation = meta.generation.map(|g| g + 1);
        if self.deleted {
            self.missing();
        }
    }

    /// The watch shows the object no more, and a live read agrees.
    fn missing(&mut self) {
        if let Cleanup::Owed(_) = self.tracked.cleanup()
            && self.tracked.begin_cleanup()
        {
            self.tracked.confirm_deleted();
        }
    }

    /// Somebody took the finalizer off and deleted the object.
    pub(crate) fn vanish(mut self) -> Self {
        self.deleted = true;
        self.tracked.confirm_deleted();
        self
    }

    /// This process wrote the intent. `clean`: no POST before it can have made a run.
    pub(crate) fn intent_written(mut self, intent: Intent, clean: bool) -> Self {
        self = self.stands(&intent);
        let with = self.learning();
        self.tracked.intent_written(intent, clean, with);
        self
    }

    /// A call is sent.
    pub(crate) fn sent(mut self, call: Call) -> Self {
        let with = self.learning();
        self.tracked.begin_call();
        self.tracked.call_sent(call, with);
        self
    }

    /// It is answered, or fails.
    pub(crate) fn answered(mut self, call: Call, answer: Result<RunView, Failure>) -> Self {
        let with = self.learning();
        self.tracked.call_answered(call, answer, with);
        self.tracked.end_call();
        self
    }

    /// A call is sent and given up: its process never hears what became of it.
    pub(crate) fn unheard(mut self, call: Call) -> Self {
        self = self.sent(call);
        self.tracked.drop_call();
        self
    }

    /// A POST and its answer.
    pub(crate) fn posted(self, answer: Result<RunView, Failure>) -> Self {
        self.sent(Call::Create).answered(Call::Create, answer)
    }

    /// A GET and its answer.
    pub(crate) fn got(self, answer: Result<RunView, Failure>) -> Self {
        self.sent(Call::Get).answered(Call::Get, answer)
    }

    /// A cancel and its answer.
    pub(crate) fn cancelled(self, answer: Result<RunView, Failure>) -> Self {
        self.sent(Call::Cancel).answered(Call::Cancel, answer)
    }

    /// Something happens to the event stream.
    pub(crate) fn stream(mut self, news: Learned) -> Self {
        let with = self.learning();
        self.tracked.memory.learn(news, with);
        self
    }

    /// Another process: what this one remembered is lost.
    pub(crate) fn restarted(mut self) -> Self {
        let before = self.tracked.presence();
        self.tracked = TrackedRun::new(Memory::of(&self.run));
        self.published.clear();
        self.settings.process = format!("{}+", self.settings.process);
        match before {
            Presence::Done => self.tracked.finish(),
            _ if self.deleted => self.tracked.confirm_deleted(),
            _ => {}
        }
        self
    }
}
