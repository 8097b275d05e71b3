//! The service: a run a key, whatever is asked how often, and every class of answer.

use run_operator::decide::failure::{Failure, FailureKind, RunView};

use crate::properties;
use crate::state::{Call, Home, Key, Packet, RunState, ServiceRun, State};

/// The answer to a request that is not simply served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    /// 401.
    Unauthorized,
    /// 403, a problem.
    Forbidden,
    /// 404 with the code of a run that isn't there, though it is.
    NotFound,
    /// 409, an approval is missing.
    Approval,
    /// 429.
    TooMany,
    /// 503, to be retried; carried out or not.
    Unavailable { done: bool },
    /// 500 with `retryable: false`; carried out or not.
    Hopeless { done: bool },
    /// A proxy's page with a 4xx status, whatever was done.
    Bare { done: bool },
    /// A 2xx that can't be read.
    Unreadable,
    /// A 2xx that names no run.
    Anonymous,
    /// The answer speaks of a run of somebody else, which has succeeded.
    OtherRun,
    /// The cancel is accepted, and nothing comes of it.
    Ignored,
    /// The caller gives up in the middle, and gets no part of the answer; the request is on its way.
    GivenUp,
}

pub(crate) fn lost() -> Failure {
    failure(FailureKind::NoAnswer, None, None)
}

fn failure(kind: FailureKind, status: Option<u16>, code: Option<&str>) -> Failure {
    Failure {
        kind,
        http_status: status,
        code: code.map(str::to_owned),
        request_id: None,
        retryable: None,
        retry_after: None,
        message: "it went wrong".into(),
    }
}

fn problem(status: u16, code: &str) -> Failure {
    failure(FailureKind::Answered, Some(status), Some(code))
}

impl Answer {
    /// True if the request is carried out first.
    pub(crate) fn done(self) -> bool {
        match self {
            Self::Unavailable { done } | Self::Hopeless { done } | Self::Bare { done } => done,
            Self::Unreadable | Self::Anonymous => true,
            _ => false,
        }
    }

    pub(crate) fn text(self) -> Result<RunView, Failure> {
        Err(match self {
            Self::Unauthorized => problem(401, "unauthorized"),
            Self::Forbidden => problem(403, "forbidden"),
            Self::NotFound => problem(404, "run_not_found"),
            Self::Approval => problem(409, "approval_required"),
            Self::TooMany => problem(429, "too_many"),
            Self::Unavailable { .. } => problem(503, "unavailable"),
            Self::Hopeless { .. } => Failure {
                retryable: Some(false),
                ..problem(500, "boom")
            },
            Self::Bare { .. } => failure(FailureKind::Answered, Some(403), None),
            Self::Unreadable => failure(FailureKind::Unreadable, Some(200), None),
            Self::OtherRun | Self::Ignored | Self::Anonymous | Self::GivenUp => {
                let other = self == Self::OtherRun;
                let state = if other { "succeeded" } else { "running" };
                return Ok(RunView {
                    run_id: other.then(|| "run-9".to_owned()),
                    state: Some(state.into()),
                    request_id: None,
                    details: None,
                });
            }
        })
    }
}

/// The run's place in the service's list.
pub(crate) fn numbered(run_id: &str) -> Option<usize> {
    run_id
        .strip_prefix("run-")?
        .parse::<usize>()
        .ok()?
        .checked_sub(1)
}

fn view(s: &State, run: usize) -> Result<RunView, Failure> {
    let found = s.service.runs.get(run).filter(|r| !r.lost);
    let found = found.ok_or_else(|| problem(404, "run_not_found"))?;
    Ok(shown(run, found.state()))
}

fn shown(run: usize, state: RunState) -> RunView {
    RunView {
        run_id: Some(format!("run-{}", run + 1)),
        state: Some(state.word().to_owned()),
        request_id: None,
        details: None,
    }
}

pub(crate) fn home(s: &State, packet: &Packet) -> Home {
    Home {
        identity: s.world.tokens[usize::from(packet.token)].identity,
        moved: packet.moved,
    }
}

fn slot(s: &State, packet: &Packet) -> Option<usize> {
    let Call::Create { key, .. } = &packet.call else {
        return None;
    };
    let home = home(s, packet);
    let is = |k: &Key| k.home == home && k.key == *key;
    s.service.keys.iter().position(is)
}

/// True if a create would find the run of its key.
pub(crate) fn known(s: &State, packet: &Packet) -> bool {
    let slot = slot(s, packet).and_then(|slot| s.service.keys.get(slot));
    slot.is_some_and(|key| key.run.is_some())
}

/// Another create with the same key finds this one being worked on.
pub(crate) fn begin(s: &mut State, packet: &mut Packet) {
    let Call::Create { key, bytes } = &packet.call else {
        return;
    };
    packet.begun = true;
    let home = home(s, packet);
    s.service.keys.push(Key {
        home,
        key: key.clone(),
        bytes: *bytes,
        run: None,
    });
}

/// Carries a request out.
pub(crate) fn serve(s: &mut State, packet: &Packet) -> Result<RunView, Failure> {
    if !s.world.tokens[usize::from(packet.token)].valid && !packet.begun && !packet.doubled {
        return Err(problem(401, "unauthorized"));
    }
    match &packet.call {
        Call::Create { key, bytes } => create(s, packet, key, *bytes),
        Call::Get(run) => {
            let answer = view(s, *run);
            // An answer without a receiver does not count.
            if packet.caller.is_some() {
                looked(s, packet.uid, *run, &answer);
            }
            answer
        }
        Call::Cancel(run) => {
            let now = s.now;
            if view(s, *run).is_err() {
                denied(s, packet.uid);
            } else {
                // An acceptance without a receiver starts no waiting time.
                let heard = packet.caller.is_some();
                let run = &mut s.service.runs[*run];
                let begins = run.state() == RunState::Running;
                if begins {
                    run.passed.push(RunState::Cancelling);
                    run.cancelled_for = Some(packet.uid);
                }
                if heard && (begins || run.accepted.is_none()) {
                    run.accepted = Some(now);
                }
            }
            view(s, *run)
        }
    }
}

/// A cancel is answered by a 404.
pub(crate) fn denied(s: &mut State, uid: u8) {
    let ghost = s.ghost(uid);
    ghost.cancel_denied = ghost.gone || ghost.deleted.is_some();
}

/// A GET is answered.
pub(crate) fn looked(s: &mut State, uid: u8, run: usize, answer: &Result<RunView, Failure>) {
    let now = s.now;
    let state = s.service.runs.get(run).map(ServiceRun::state);
    let ghost = s.ghost(uid);
    match answer {
        Ok(_) => {
            ghost.cancel_denied = false;
            ghost.denials.clear();
            if state == Some(RunState::Cancelling) {
                ghost.cancelling = Some(now);
            }
        }
        Err(failure) if failure.http_status == Some(404) => {
            ghost.both_denied |= ghost.cancel_denied;
            if ghost.denials.last() != Some(&now) && ghost.denials.len() < 8 {
                ghost.denials.push(now);
            }
        }
        Err(_) => {}
    }
}

fn create(
    s: &mut State,
    packet: &Packet,
    key: &std::sync::Arc<str>,
    bytes: u64,
) -> Result<RunView, Failure> {
    if s.service.refuses {
        return Err(problem(422, "invalid"));
    }
    let home = home(s, packet);
    let slot = slot(s, packet);
    if let Some(kept) = slot.map(|slot| &s.service.keys[slot]) {
        match kept.run {
            Some(_) if kept.bytes != bytes => return Err(problem(409, "idempotency_conflict")),
            // What the key made is known, whatever became of it since.
            Some(run) => return Ok(shown(run, s.service.runs[run].state())),
            None if !packet.begun && s.left.one_word => {
                return Err(problem(409, "idempotency_conflict"));
            }
            None if !packet.begun => return Err(problem(409, "idempotency_in_progress")),
            None => {}
        }
    }
    let number = s.service.runs.len();
    s.service.runs.push(ServiceRun {
        uid: packet.uid,
        home,
        passed: vec![RunState::Running],
        accepted: None,
        cancelled_for: None,
        lost: false,
    });
    match slot {
        Some(slot) => s.service.keys[slot].run = Some(number),
        None => s.service.keys.push(Key {
            home,
            key: key.clone(),
            bytes,
            run: Some(number),
        }),
    }
    if s.service
        .runs
        .iter()
        .filter(|r| r.uid == packet.uid)
        .count()
        > 1
    {
        s.breaks(properties::Broken::TwoRuns);
    }
    properties::nothing_left(s, packet.uid);
    view(s, number)
}

/// The service forgets the keys.
pub(crate) fn forget(s: &mut State) {
    s.service.keys.clear();
    // No request outlives the time that a key is remembered.
    s.calls.retain(|c| !matches!(c.call, Call::Create { .. }));
}

/// True if the key of a create has a place in the table.
pub(crate) fn taken(s: &State, packet: &Packet) -> bool {
    slot(s, packet).is_some()
}

/// A cancel is accepted, and nothing comes of it.
pub(crate) fn ignored(s: &mut State, packet: &Packet) -> Result<RunView, Failure> {
    let Call::Cancel(run) = packet.call else {
        return Err(lost());
    };
    let now = s.now;
    if let Some(run) = s.service.runs.get_mut(run) {
        run.accepted.get_or_insert(now);
    }
    view(s, run)
}

/// Records the denial in an answer that is not true: the design releases the object because of it.
pub(crate) fn told(s: &mut State, packet: &Packet, answer: &Result<RunView, Failure>) {
    let denies = matches!(answer, Err(f) if f.http_status == Some(404));
    match packet.call {
        Call::Cancel(_) if denies => denied(s, packet.uid),
        Call::Get(run) if denies => looked(s, packet.uid, run, answer),
        _ => {}
    }
}
