//! The executor of one object: it carries out the steps of the controller's own loop. Its API server carries out every
//! write; the answers of the service are the caller's.

use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use run_operator::{
    api::{Intent, RunStatus},
    decide::{
        Decision, Effect, Inputs, Memory, RefusedWrite, Report, ReportContext, WorkspaceView,
        decide,
        failure::{Call, Failure, RunView},
        milestones::{ENDS, Milestones},
        turn::{Outcome, Step, TrackedRun, Turn},
    },
};

use super::{CONTRACT, Case, UID};

impl Case {
    pub(crate) fn report_context(&self) -> ReportContext<'static> {
        ReportContext {
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
        self.forgotten || self.tracked.done()
    }

    /// A reconcile takes in the version that the API server has.
    pub(crate) fn reads_object(&mut self) {
        if !self.tracked.deleted() {
            self.tracked.observe(Arc::new(self.run.clone()));
        }
    }

    /// A reconcile decides.
    pub(crate) fn next(&mut self) -> Turn {
        self.reads_object();
        let (wall, choice) = (self.wall(), self.choice());
        self.tracked.next(
            self.deleted,
            None,
            |run, memory, deleted_without_release| {
                decide(&Inputs {
                    run,
                    choice: &choice,
                    workspace: &self.view,
                    rules: Some(&self.rules),
                    namespace_allowed: self.namespace_allowed,
                    memory,
                    key_holder: self.key_holder.as_deref(),
                    needs_slot: self.needs_slot,
                    deleted_without_release,
                    stream: self.stream,
                    call_delay: self.call_delay,
                    contract: &CONTRACT,
                    settings: &self.settings,
                    now: self.now,
                    wall,
                })
            },
        )
    }

    /// Carries out a step that is no call. `heard`: its process gets the answer.
    pub(crate) fn carry_out(&mut self, step: &Step, heard: bool) {
        match step {
            Step::Rest(_) => return,
            Step::Forget => {
                self.forgotten = true;
                return;
            }
            Step::ReadLive => {}
            Step::WriteStatus { status, .. } => self.write_status(status),
            Step::Act(Effect::Delete) => self.delete(),
            Step::Act(effect) => {
                let change = effect.metadata_change(&self.run).expect("an intent");
                let change = change.expect("no call");
                self.deleted = change.deletes(&self.run.metadata);
                change.apply(&mut self.run.metadata);
            }
        }
        if heard {
            self.took(step);
        }
        self.missing();
    }

    /// Each end is one of those that the metrics begin with.
    fn write_status(&mut self, status: &RunStatus) {
        let before = self.run.clone();
        self.run.status = Some(status.clone());
        let new = Milestones::between(&before, &self.run, &self.tracked.memory, self.now);
        if let Some(end) = new.end {
            let pair = (end.outcome, end.reason);
            assert!(ENDS.contains(&pair), "{pair:?}");
        }
    }

    fn took(&mut self, step: &Step) {
        let outcome = match step {
            Step::ReadLive => Outcome::Gone,
            _ if self.deleted => Outcome::Removed,
            _ => Outcome::Written(Arc::new(self.run.clone())),
        };
        let with = self.report_context();
        self.tracked.took(step, outcome, with);
    }

    /// The next write, of the metadata, is refused for a minute.
    pub(crate) fn write_refused(self, sentence: &str) -> Self {
        self.settle().next_refused(sentence)
    }

    /// The same of its next write, which may be that of the status.
    pub(crate) fn next_refused(self, sentence: &str) -> Self {
        let mut case = self;
        let turn = case.next();
        let again = case.now + SignedDuration::from_secs(60);
        let sentence = sentence.to_owned();
        let refused = Outcome::Refused(RefusedWrite { sentence, again });
        let with = case.report_context();
        case.tracked.took(&turn.step, refused, with);
        case
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

    /// The watch shows a deleted object no more, and a live read agrees.
    fn missing(&mut self) {
        if !self.deleted || self.tracked.deleted() {
            return;
        }
        let next = self.tracked.next(true, None, |_, _, _| Decision::quiet());
        match next.step {
            Step::ReadLive => self.took(&Step::ReadLive),
            Step::Forget => self.forgotten = true,
            _ => {}
        }
    }

    /// Somebody took the finalizer off and deleted the object.
    pub(crate) fn vanish(mut self) -> Self {
        self.reads_object();
        self.deleted = true;
        self.took(&Step::ReadLive);
        self
    }

    /// This process wrote the intent. `clean`: no POST before it can have made a run.
    pub(crate) fn intent_written(mut self, intent: Intent, clean: bool) -> Self {
        self = self.stands(&intent);
        let finalizer = false;
        self.took(&Step::Act(Effect::WriteIntent {
            intent: Box::new(intent),
            finalizer,
            clean,
        }));
        self
    }

    /// A call is sent.
    pub(crate) fn sent(mut self, call: Call) -> Self {
        let with = self.report_context();
        self.tracked.sent(call, with);
        self
    }

    /// It is answered, or fails.
    pub(crate) fn answered(mut self, call: Call, answer: Result<RunView, Failure>) -> Self {
        let with = self.report_context();
        self.tracked.answered(call, answer, with);
        self
    }

    /// A call is sent and given up: its process never hears what became of it.
    pub(crate) fn unheard(mut self, call: Call) -> Self {
        self = self.sent(call);
        self.tracked.given_up();
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
    pub(crate) fn stream(mut self, news: Report) -> Self {
        let with = self.report_context();
        self.tracked.memory.record(news, with);
        self
    }

    /// Another process: what this one remembered is lost.
    pub(crate) fn restarted(mut self) -> Self {
        self.forgotten = self.over();
        self.tracked = TrackedRun::new(Memory::of(&self.run));
        self.published.clear();
        self.settings.process = format!("{}+", self.settings.process);
        if self.deleted && !self.forgotten {
            self = self.vanish();
        }
        self
    }
}
