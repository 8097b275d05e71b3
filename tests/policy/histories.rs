//! Random turns of a Run, its process, its Workspace and its namespace; no world of their own.
//! `apply` takes them on a `Case` with whatever answer the turn names: for what holds whatever is observed.
//! On a `World` they are taken by `troubled`, with a service that keeps its rules: for what a life comes to.

use std::time::Duration;

use proptest::prelude::*;
use run_operator::{
    api::{
        Phase, Reason,
        intent::End,
        run::{DeletionPolicy, ReadyWhen},
        status::ResolvedWorkspace,
    },
    decide::{
        CallDelay, Session, Stream, WorkspaceView,
        delays::later,
        event_buffer::Received,
        failure::{Failure, RunView},
        turn::Step,
    },
};

use crate::support::{
    Case, INTENT, bare, hopeless, lost, not_ready, problem, session, unreadable, view,
};

/// So many histories, or the number in the environment variable `PROPTEST_CASES`.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok();
    ProptestConfig {
        cases: asked.and_then(|n| n.parse().ok()).unwrap_or(cases),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// One thing that may happen to a Run, its process or its Workspace.
#[derive(Clone, Debug)]
pub(crate) enum Turn {
    /// Act on what is decided, with this answer if it is a call.
    Act(Answer),
    /// The patch or the call is carried out, and the process never gets the answer.
    Unheard,
    Wait(i64),
    /// The wall clock steps by so many seconds.
    WallSteps(i64),
    Crash,
    Delete,
    Suspend(bool),
    Cancel,
    Orphan,
    Retry(u8),
    ReadyWhenAccepted,
    View(Sight),
    /// The answer of the namespace's labels.
    Allowed(Option<bool>),
    /// Calls go again.
    Flowing,
    Queued,
    /// For so many seconds.
    Paused(u64),
    /// Someone edits the intent in the object.
    Forge(Forgery),
    Strip,
    Scribble,
    Foreign,
    KeyHolder(bool),
    Event(u8),
    Streaming(bool),
    Vanish,
}

/// The view of the Workspace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sight {
    Unknown,
    Missing,
    NotReady,
    Ready,
    /// First submissions are held for this reason.
    Holds(Reason),
    OtherIdentity,
    NoIdentity,
    OtherUrl,
    Recreated,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Forgery {
    Owner,
    Epoch(i64),
    Place,
    PlaceAndEpoch,
    Key,
    Bytes,
    Retry,
    /// The key is made to look as young as the edit.
    Time,
    End,
    /// An intent where none is.
    Made,
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    State(&'static str),
    Nothing,
    OtherRun,
    Fails(Failure),
}

pub(crate) fn answers() -> impl Strategy<Value = Answer> {
    prop_oneof![
        6 => prop::sample::select(vec![
            "queued", "running", "weird", "cancelling", "succeeded", "failed", "cancelled",
        ]).prop_map(Answer::State),
        1 => Just(Answer::Nothing),
        1 => Just(Answer::OtherRun),
        6 => prop::sample::select(vec![
            lost(), unreadable(), hopeless(), bare(502), bare(404), problem(401, "expired"),
            problem(403, "no"), problem(404, "run_not_found"), problem(409, "idempotency_conflict"),
            problem(409, "approval_required"), problem(409, "idempotency_in_progress"), problem(422, "invalid"), problem(429, "slow"),
            Failure { retryable: Some(true), ..problem(503, "busy") },
            Failure { retry_after: Some(Duration::from_secs(9999)), ..problem(429, "slow") },
        ]).prop_map(Answer::Fails),
    ]
}

const SIGHTS: &[Sight] = &[
    Sight::Unknown,
    Sight::Missing,
    Sight::NotReady,
    Sight::Ready,
    Sight::Ready,
    Sight::Ready,
    Sight::Holds(Reason::VersionNotAccepted),
    Sight::Holds(Reason::WorkspaceSuspended),
    Sight::Holds(Reason::WorkspaceDeleting),
    Sight::Holds(Reason::SecretNotFound),
    Sight::OtherIdentity,
    Sight::NoIdentity,
    Sight::OtherUrl,
    Sight::Recreated,
];

const FORGERIES: &[Forgery] = &[
    Forgery::Owner,
    Forgery::Epoch(1),
    Forgery::Epoch(7),
    Forgery::Place,
    Forgery::PlaceAndEpoch,
    Forgery::Key,
    Forgery::Bytes,
    Forgery::Retry,
    Forgery::Time,
    Forgery::End,
    Forgery::Made,
];

pub(crate) fn sights() -> impl Strategy<Value = Sight> {
    prop::sample::select(SIGHTS)
}

pub(crate) fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = prop_oneof![
        12 => answers().prop_map(Turn::Act),
        1 => Just(Turn::Unheard),
        4 => prop::sample::select(vec![1_i64, 60, 301, 90_000]).prop_map(Turn::Wait),
        1 => prop::sample::select(vec![-3600_i64, 3600]).prop_map(Turn::WallSteps),
        1 => Just(Turn::Crash),
        1 => Just(Turn::Delete),
        1 => any::<bool>().prop_map(Turn::Suspend),
        1 => Just(Turn::Cancel),
        1 => Just(Turn::Orphan),
        1 => (0_u8..3).prop_map(Turn::Retry),
        1 => Just(Turn::ReadyWhenAccepted),
        4 => prop::sample::select(SIGHTS).prop_map(Turn::View),
        2 => prop::sample::select(vec![None, Some(false), Some(true), Some(true)]).prop_map(Turn::Allowed),
        2 => prop::sample::select(vec![
            Turn::Flowing, Turn::Queued, Turn::Paused(6), Turn::Paused(600),
        ]),
        2 => prop::sample::select(FORGERIES).prop_map(Turn::Forge),
        1 => Just(Turn::Strip),
        1 => Just(Turn::Scribble),
        1 => Just(Turn::Foreign),
        1 => any::<bool>().prop_map(Turn::KeyHolder),
        3 => (0_u8..40).prop_map(Turn::Event),
        1 => any::<bool>().prop_map(Turn::Streaming),
        1 => Just(Turn::Vanish),
    ];
    prop::collection::vec(turn, 0..24)
}

pub(crate) fn apply(mut case: Case, turn: &Turn) -> Case {
    if case.over() {
        return case;
    }
    let meta = &mut case.run.metadata;
    let bump = |case: &mut Case| {
        case.run.metadata.generation = case.run.metadata.generation.map(|g| g + 1);
    };
    match turn {
        Turn::Act(answer) => return act(case.settle(), answer, true),
        Turn::Unheard => return act(case.settle(), &Answer::State("queued"), false),
        Turn::Wait(seconds) => return wait(case, *seconds),
        Turn::WallSteps(seconds) => return case.wall_steps(*seconds),
        Turn::Crash => return case.restarted(),
        Turn::Delete if meta.deletion_timestamp.is_none() => return case.deleting(),
        Turn::Delete => {}
        Turn::Suspend(held) => {
            case.run.spec.suspend = Some(*held);
            bump(&mut case);
        }
        Turn::Cancel => {
            case.run.spec.cancel = Some(true);
            bump(&mut case);
        }
        Turn::Orphan => {
            case.run.spec.deletion_policy = Some(DeletionPolicy::Orphan);
            bump(&mut case);
        }
        Turn::ReadyWhenAccepted => {
            case.run.spec.ready_when = Some(ReadyWhen::Accepted);
            bump(&mut case);
        }
        Turn::Retry(n) => return case.retry(&n.to_string()),
        Turn::View(sight) => return see(case, *sight),
        Turn::Allowed(allowed) => case.namespace_allowed = *allowed,
        Turn::Flowing => case.call_delay = None,
        Turn::Queued => case.call_delay = Some(CallDelay::Queued),
        Turn::Paused(seconds) => {
            let until = later(case.now, Duration::from_secs(*seconds));
            case.call_delay = Some(CallDelay::Paused { until });
        }
        Turn::Forge(forgery) => return forge(case, *forgery),
        Turn::Strip => {
            meta.annotations = None;
            meta.finalizers = None;
        }
        Turn::Scribble => return case.annotate(INTENT, "{"),
        Turn::Foreign => return case.foreign(),
        Turn::KeyHolder(there) => case.key_holder = there.then(|| "elder".into()),
        Turn::Event(n) => {
            let event = Received {
                id: (*n < 30).then(|| format!("e{n}")),
                kind: "state".into(),
                data: "{}".into(),
            };
            let state = (n % 3 == 0).then_some("running");
            let wall = case.wall();
            case.tracked
                .memory
                .event_buffer
                .receive(&event, state, Some("running"), wall);
        }
        Turn::Streaming(true) => case.stream = Stream::Open,
        Turn::Streaming(false) => case.stream = Stream::Closed,
        Turn::Vanish => return case.vanish(),
    }
    case
}

/// Lets time pass, and with it a pause.
pub(crate) fn wait(mut case: Case, seconds: i64) -> Case {
    case.now += jiff::SignedDuration::from_secs(seconds);
    if matches!(case.call_delay, Some(CallDelay::Paused { until }) if until <= case.now) {
        case.call_delay = None;
    }
    case
}

/// Sets another view of the Workspace: another check of another place is another session.
pub(crate) fn see(mut case: Case, sight: Sight) -> Case {
    let number = match &case.view {
        WorkspaceView::Ready(session) => session.number.max(case.sessions),
        _ => case.sessions,
    };
    let fresh = session(number + 1);
    let moved = |change: fn(&mut ResolvedWorkspace)| {
        let mut session = fresh.clone();
        change(&mut session.resolved);
        WorkspaceView::Ready(session)
    };
    case.sessions = number + 1;
    case.view = match sight {
        Sight::Unknown => WorkspaceView::Unknown,
        Sight::Missing => WorkspaceView::Missing,
        Sight::NotReady => not_ready(),
        Sight::Ready => WorkspaceView::Ready(fresh),
        Sight::Holds(reason) => WorkspaceView::Ready(Session {
            submissions_blocked: Some((reason, "it is held".into())),
            ..fresh
        }),
        Sight::OtherIdentity => moved(|w| w.identity = Some("ws-other".into())),
        Sight::NoIdentity => moved(|w| w.identity = None),
        Sight::OtherUrl => moved(|w| w.base_url = "https://other.example.com/api/v1".into()),
        Sight::Recreated => moved(|w| w.uid = "w2".into()),
    };
    case
}

fn forge(case: Case, forgery: Forgery) -> Case {
    let other = "ws-other".to_owned();
    let mut intent = match (case.run.intent_record().own(), forgery) {
        (None, Forgery::Made) => case.an_intent("somebody", 1),
        (None, _) | (Some(_), Forgery::Made) => return case,
        (Some(intent), _) => intent,
    };
    match forgery {
        Forgery::Owner => intent.owner = "somebody".into(),
        Forgery::Epoch(epoch) => intent.epoch = epoch,
        Forgery::Place => intent.workspace.identity = Some(other),
        Forgery::PlaceAndEpoch => {
            intent.workspace.identity = Some(other);
            intent.epoch += 5;
        }
        Forgery::Key => intent.key = "another".into(),
        Forgery::Bytes => intent.sha256 = "00".into(),
        Forgery::Retry => intent.retry = Some("1".into()),
        Forgery::Made | Forgery::Time => intent.time = case.wall(),
        Forgery::End => {
            intent.end = Some(End {
                run_id: Some("somebody-s".into()),
                phase: Phase::Failed,
                reason: Reason::RunNotFound,
            });
        }
    }
    case.stands(&intent)
}

pub(crate) fn act(mut case: Case, answer: &Answer, heard: bool) -> Case {
    let answer = match answer {
        Answer::State(state) => Ok(view(state)),
        Answer::Nothing => Ok(RunView::default()),
        Answer::OtherRun => Ok(RunView {
            run_id: Some("run-2".into()),
            ..view("running")
        }),
        Answer::Fails(failure) => Err(failure.clone()),
    };
    let step = case.next().step;
    let call = match &step {
        Step::Act(effect) => effect.call(),
        _ => None,
    };
    match call {
        Some(call) if heard => return case.sent(call).answered(call, answer),
        Some(call) => return case.unheard(call),
        None => case.carry_out(&step, heard),
    }
    case
}
