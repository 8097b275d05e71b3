//! One Run and its process: an observation built in a line, and the steps that lead to the next.

mod answers;
mod decision;
mod executor;

use std::{collections::HashSet, sync::LazyLock, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use run_operator::{
    api::{
        Contract, EventReason, Intent, Phase, Reason, Run, RunSpec, RunStatus, WorkspaceKind,
        WorkspaceRef, WorkspaceSpec,
        intent::End,
        run::DeletionPolicy,
        status::{Refusal, ResolvedWorkspace},
        workspace::RunLimits,
    },
    decide::{
        CallDelay, Choice, EventDraft, Memory, Session, Settings, Stream, WorkspaceView, choice,
        console::ConsoleOrigins, request, turn::TrackedRun,
    },
    util::sha256,
};

pub(crate) use self::answers::{
    bare, hopeless, identity_failed, lost, no_file, problem, unreadable, version_failed, view,
};
pub(crate) use self::decision::{condition, intent_of, name};

pub(crate) const UID: &str = "6f1f0c0e-0000-4000-8000-000000000001";
/// The base URL of [`place`].
pub(crate) const BASE_URL: &str = "https://runs.example.com/api/v1";
pub(crate) const INTENT: &str = "run-operator.dev/intent";
pub(crate) const RETRY: &str = "run-operator.dev/retry";
pub(crate) const FINALIZER: &str = "run-operator.dev/cancel";

pub(crate) static CONTRACT: LazyLock<Contract> =
    LazyLock::new(|| Contract::builtin().expect("the built-in contract"));

/// Second `seconds` of the test's clock.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) run: Run,
    /// What the rule gives.
    pub(crate) by_rule: Choice,
    pub(crate) view: WorkspaceView,
    pub(crate) rules: WorkspaceSpec,
    pub(crate) namespace_allowed: Option<bool>,
    pub(crate) tracked: TrackedRun<Run>,
    /// The API server has deleted the object.
    pub(crate) deleted: bool,
    /// Its process has forgotten it.
    pub(crate) forgotten: bool,
    pub(crate) key_holder: Option<String>,
    pub(crate) needs_slot: Option<RunLimits>,
    pub(crate) stream: Stream,
    pub(crate) call_delay: Option<CallDelay>,
    pub(crate) settings: Settings,
    /// Process time.
    pub(crate) now: Timestamp,
    /// Seconds that the wall clock is ahead of it.
    pub(crate) ahead: i64,
    /// Seconds by which the difference of two stored times may be wrong.
    pub(crate) wrong_by: i64,
    /// Counts the Workspace's sessions.
    pub(crate) sessions: u64,
    /// The Kubernetes Events, as the API server keeps them: each name once.
    pub(crate) events: Vec<EventDraft>,
    /// The names of those that this process has published.
    pub(crate) published: HashSet<(EventReason, String)>,
}

pub(crate) fn place() -> ResolvedWorkspace {
    ResolvedWorkspace {
        kind: WorkspaceKind::Workspace,
        name: "default".into(),
        uid: "w1".into(),
        base_url: BASE_URL.into(),
        identity: Some("ws-123".into()),
    }
}

pub(crate) fn session(number: u64) -> Session {
    Session {
        number,
        resolved: place(),
        submissions_blocked: None,
    }
}

pub(crate) fn not_ready() -> WorkspaceView {
    WorkspaceView::NotReady {
        reason: Reason::ServiceUnavailable,
        message: "no answer".into(),
        since: at(-60),
    }
}

impl Case {
    /// A Run just applied, with the schema's default for its status; its Workspace Ready.
    pub(crate) fn new() -> Self {
        let workload = serde_json::json!({"image": "ghcr.io/acme/train:1.4"});
        let spec: RunSpec =
            serde_json::from_value(serde_json::json!({"workload": workload})).expect("a spec");
        let mut run = Run::new("train", spec);
        run.metadata.namespace = Some("team".into());
        run.metadata.uid = Some(UID.into());
        run.metadata.generation = Some(1);
        run.status = Some(RunStatus::initial());
        Self {
            run,
            by_rule: Choice::One(WorkspaceRef::own_default()),
            view: WorkspaceView::Ready(session(1)),
            rules: WorkspaceSpec::default(),
            namespace_allowed: Some(true),
            tracked: TrackedRun::new(Memory::default()),
            deleted: false,
            forgotten: false,
            key_holder: None,
            needs_slot: None,
            stream: Stream::Closed,
            call_delay: None,
            settings: Settings {
                process: "me".into(),
                poll_min: Duration::from_secs(2),
                poll_max: Duration::from_mins(1),
                service_events: true,
                console_origins: ConsoleOrigins::parse(&["https://console.example.com".to_owned()])
                    .expect("an origin"),
            },
            now: at(0),
            ahead: 0,
            wrong_by: 0,
            sessions: 1,
            events: Vec::new(),
            published: HashSet::new(),
        }
    }

    pub(crate) fn spec(mut self, change: impl FnOnce(&mut RunSpec)) -> Self {
        change(&mut self.run.spec);
        self
    }

    pub(crate) fn status(mut self, change: impl FnOnce(&mut RunStatus)) -> Self {
        change(self.run.status.get_or_insert_default());
        self
    }

    pub(crate) fn annotate(mut self, key: &str, value: &str) -> Self {
        let annotations = self.run.metadata.annotations.get_or_insert_default();
        annotations.insert(key.into(), value.into());
        self
    }

    pub(crate) fn retry(self, value: &str) -> Self {
        self.annotate(RETRY, value)
    }

    pub(crate) fn finalizer(mut self) -> Self {
        self.run.metadata.finalizers = Some(vec![FINALIZER.into()]);
        self
    }

    /// Sets the intent in the object, with its finalizer.
    pub(crate) fn intent(self, owner: &str, epoch: i64) -> Self {
        let intent = self.an_intent(owner, epoch);
        self.stands(&intent).finalizer()
    }

    pub(crate) fn stands(self, intent: &Intent) -> Self {
        let text = serde_json::to_string(intent).expect("an intent");
        self.annotate(INTENT, &text)
    }

    pub(crate) fn an_intent(&self, owner: &str, epoch: i64) -> Intent {
        let bytes = request::body(&self.run.spec, 1).expect("a body");
        Intent {
            uid: UID.into(),
            workspace: place(),
            run_defaults: None,
            key: request::idempotency_key(&self.run.spec, "team", UID),
            sha256: sha256(&bytes),
            serializer: 1,
            time: at(0),
            owner: owner.into(),
            epoch,
            retry: None,
            end: None,
        }
    }

    /// The same, with an end in it, as the operator keeps it.
    pub(crate) fn an_ended_intent(
        &self,
        owner: &str,
        end: (Option<&str>, Phase, Reason),
    ) -> Intent {
        let (run_id, phase, reason) = end;
        Intent {
            end: Some(End {
                run_id: run_id.map(str::to_owned),
                phase,
                reason,
            }),
            ..self.an_intent(owner, 1)
        }
    }

    pub(crate) fn foreign(self) -> Self {
        let mut intent = self.an_intent("me", 1);
        intent.uid = "another".into();
        self.stands(&intent)
    }

    /// This process wrote the intent and no POST went before.
    pub(crate) fn mine(self) -> Self {
        let intent = self.an_intent("me", 1);
        self.finalizer().intent_written(intent, true)
    }

    /// This process took the intent over.
    pub(crate) fn taken_over(self) -> Self {
        let intent = self.an_intent("me", 2);
        self.finalizer().intent_written(intent, false)
    }

    pub(crate) fn refused(self, reason: Reason, not_created: bool, epoch: i64) -> Self {
        self.status(|s| {
            s.observed_generation = Some(1);
            s.phase = Some(Phase::Pending);
            s.refusal = Some(Refusal {
                reason,
                not_created,
                epoch,
            });
        })
    }

    /// Submitted by an earlier process, with this state mirrored.
    pub(crate) fn submitted(self, state: &str) -> Self {
        self.intent("earlier", 1).status(|s| {
            s.observed_generation = Some(1);
            s.phase = Some(Phase::Active);
            s.run_id = Some("run-1".into());
            s.workspace = Some(place());
            s.state = Some(state.into());
            s.idempotency_key = Some(UID.into());
            s.submission_time = Some(Time(at(0)));
        })
    }

    /// Changes the Workspace's spec.
    pub(crate) fn rules(mut self, change: impl FnOnce(&mut WorkspaceSpec)) -> Self {
        change(&mut self.rules);
        self
    }

    /// The Workspace that it uses.
    pub(crate) fn choice(&self) -> Choice {
        let run = &self.run;
        let intent = || self.tracked.memory.deciding_intent(run);
        let bound = choice::bound(&run.spec, run.status.as_ref(), intent);
        bound.map_or_else(|| self.by_rule.clone(), Choice::One)
    }

    pub(crate) fn view(mut self, view: WorkspaceView) -> Self {
        self.view = view;
        self
    }

    /// Sets whether the namespace may use the Workspace; `None`: not known yet.
    pub(crate) fn allowed(mut self, allowed: Option<bool>) -> Self {
        self.namespace_allowed = allowed;
        self
    }

    pub(crate) fn at(mut self, seconds: i64) -> Self {
        self.now = at(seconds);
        self
    }

    /// The wall clock.
    pub(crate) fn wall(&self) -> Timestamp {
        self.now + SignedDuration::from_secs(self.ahead)
    }

    /// The wall clock steps.
    pub(crate) fn wall_steps(mut self, seconds: i64) -> Self {
        self.ahead += seconds;
        self.wrong_by += seconds.abs();
        self
    }

    /// Deleted at the case's time.
    pub(crate) fn deleting(mut self) -> Self {
        self.run.metadata.deletion_timestamp = Some(Time(self.wall()));
        self.run.metadata.generation = self.run.metadata.generation.map(|g| g + 1);
        self
    }

    pub(crate) fn orphan(self) -> Self {
        self.spec(|s| s.deletion_policy = Some(DeletionPolicy::Orphan))
            .deleting()
    }
}
