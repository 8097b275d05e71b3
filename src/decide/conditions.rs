//! The conditions of a Run (the table in docs/reasons.md), and those of an object that the operator can't decode.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::{
    ConditionType as Type, Phase, Reason, WorkspaceStatus,
    conditions::{self, ConditionUpdate},
    run::ReadyWhen,
    status::RunStatus,
};

use super::truncate::{MAX_SENTENCES, cut};

const SUSPENDED: &str = "Suspended by spec.suspend; set it to false to submit the run.";
const LAST_STATE: &str = "The run has ended; its last state is mirrored.";
const STREAMED: &str = "The status shows what the service last said.";
/// Without times and counters: it is written once, however often a stream waits for its place.
const POLLED: &str = "The status shows what the service last said. More runs are followed than event streams may be open, so this run is polled until one is free.";

/// Conditions of a Run: the rows of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conditions {
    Pending(Why),
    Suspended,
    /// A person has to act: refused for good, of unknown outcome, restored, or its key is in use.
    Blocked(Why),
    Active(Mirror),
    /// A cancellation was requested and the run was not seen to end.
    Cancelling(Mirror),
    Ended {
        phase: Phase,
        why: Why,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    pub reason: Reason,
    /// One or two sentences, without times or counters.
    pub message: String,
}

impl Why {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    pub why: Why,
    pub stale: Option<Why>,
    /// All places for streams are taken.
    pub polled: bool,
}

pub fn apply(
    status: &mut RunStatus,
    conditions: &Conditions,
    ready_when: ReadyWhen,
    generation: i64,
    wall: Timestamp,
) {
    let row = Row::of(status, conditions, ready_when);
    status.phase = Some(row.phase);
    status.observed_generation = Some(generation);
    let accepted = match &status.run_id {
        Some(id) if row.accepted => {
            let message = format!("The service accepted the run as {}.", cut(id, 512));
            Why::new(Reason::Submitted, message)
        }
        _ => row.why.clone(),
    };
    let mut set = |kind, holds: Option<bool>, why: &Why| {
        set_condition(&mut status.conditions, kind, holds, why, generation, wall);
    };
    set(Type::Accepted, Some(row.accepted), &accepted);
    set(Type::Synced, row.synced.0, &row.synced.1);
    // In the order in which a new status shows them.
    for kind in [
        Type::Suspended,
        Type::Finished,
        Type::Complete,
        Type::Failed,
        Type::Cancelled,
        Type::Ready,
        Type::Reconciling,
        Type::Stalled,
    ] {
        let holds = row.holds.contains(&kind);
        let false_is_shown = matches!(kind, Type::Finished | Type::Ready);
        set(kind, (holds || false_is_shown).then_some(holds), &row.why);
    }
}

pub(crate) fn set_condition(
    conditions: &mut Vec<Condition>,
    kind: Type,
    holds: Option<bool>,
    why: &Why,
    generation: i64,
    wall: Timestamp,
) {
    let update = ConditionUpdate {
        kind,
        status: holds,
        reason: why.reason,
        message: cut(&why.message, MAX_SENTENCES).to_owned(),
    };
    conditions::set(conditions, update, generation, wall);
}

/// Whether two lists show the same but for messages and times.
pub(crate) fn alike(a: &[Condition], b: &[Condition]) -> bool {
    let shown = |c: &Condition| (c.type_.clone(), c.status.clone(), c.reason.clone());
    a.iter().map(shown).eq(b.iter().map(shown))
}

struct Row {
    phase: Phase,
    accepted: bool,
    /// Absent while there is no run at the service.
    synced: (Option<bool>, Why),
    holds: &'static [Type],
    why: Why,
}

impl Row {
    fn of(status: &RunStatus, conditions: &Conditions, ready_when: ReadyWhen) -> Self {
        match conditions {
            Conditions::Pending(why) => Self {
                holds: &[Type::Reconciling],
                ..Self::pending(why)
            },
            Conditions::Suspended => Self {
                holds: &[Type::Suspended],
                ..Self::pending(&Why::new(Reason::Suspended, SUSPENDED))
            },
            Conditions::Blocked(why) => Self {
                holds: &[Type::Stalled],
                ..Self::blocked(status, why)
            },
            Conditions::Active(mirror) if ready_when == ReadyWhen::Accepted => Self {
                holds: &[Type::Ready],
                ..Self::at_the_service(Phase::Active, mirror)
            },
            Conditions::Active(mirror) => Self {
                holds: &[Type::Reconciling],
                ..Self::at_the_service(Phase::Active, mirror)
            },
            Conditions::Cancelling(mirror) => Self {
                holds: &[Type::Reconciling],
                ..Self::at_the_service(Phase::Cancelling, mirror)
            },
            Conditions::Ended { phase, why } => Self::ended(status, *phase, why),
        }
    }

    fn pending(why: &Why) -> Self {
        Self {
            phase: Phase::Pending,
            accepted: false,
            synced: (None, why.clone()),
            holds: &[],
            why: why.clone(),
        }
    }

    /// A submitted Run can be blocked, too (the service returned another runID): its phase stays.
    fn blocked(status: &RunStatus, why: &Why) -> Self {
        // The runID of a restored status is another object's.
        if status.run_id.is_none() || why.reason == Reason::Restored {
            return Self::pending(why);
        }
        let phase = status.phase.filter(|p| *p != Phase::Pending);
        Self {
            phase: phase.unwrap_or(Phase::Active),
            accepted: true,
            synced: (Some(false), why.clone()),
            ..Self::pending(why)
        }
    }

    fn at_the_service(phase: Phase, mirror: &Mirror) -> Self {
        let synced = match &mirror.stale {
            Some(why) => (Some(false), why.clone()),
            None if mirror.polled => (Some(true), Why::new(Reason::Polled, POLLED)),
            None => (Some(true), Why::new(Reason::Mirrored, STREAMED)),
        };
        Self {
            phase,
            accepted: true,
            synced,
            ..Self::pending(&mirror.why)
        }
    }

    fn ended(status: &RunStatus, phase: Phase, why: &Why) -> Self {
        let submitted = status.run_id.is_some();
        let failed = phase == Phase::Failed || why.reason == Reason::CancelledElsewhere;
        let synced = match why.reason {
            _ if !submitted => (None, why.clone()),
            Reason::RunNotFound => (Some(false), why.clone()),
            _ => (Some(true), Why::new(Reason::Mirrored, LAST_STATE)),
        };
        Self {
            phase,
            // "As it was": a Run cancelled before its submission never was accepted.
            accepted: submitted,
            synced,
            holds: match phase {
                Phase::Cancelled if failed => {
                    &[Type::Finished, Type::Failed, Type::Cancelled, Type::Stalled]
                }
                _ if failed => &[Type::Finished, Type::Failed, Type::Stalled],
                Phase::Succeeded => &[Type::Finished, Type::Complete, Type::Ready],
                _ => &[Type::Finished, Type::Cancelled, Type::Ready],
            },
            ..Self::pending(why)
        }
    }
}

const REMEDY: &str = "Correct it, or apply the CRDs of this operator's version.";

/// The status of a Run that can't be decoded, unless it has ended. `what` names the part, never its content.
pub fn undecodable_run(
    mut status: RunStatus,
    what: &str,
    generation: i64,
    now: Timestamp,
) -> RunStatus {
    if status.phase.is_some_and(Phase::terminal) {
        return status;
    }
    let message = format!(
        "The operator can't read this Run: {what}. Nothing is done for it until it changes. {REMEDY}"
    );
    let blocked = Conditions::Blocked(Why::new(Reason::RunInvalid, message));
    apply(&mut status, &blocked, ReadyWhen::default(), generation, now);
    status
}

pub fn undecodable_workspace(
    mut status: WorkspaceStatus,
    what: &str,
    generation: i64,
    now: Timestamp,
) -> WorkspaceStatus {
    let message =
        format!("The operator can't read this Workspace: {what}. Its Runs wait. {REMEDY}");
    let why = Why::new(Reason::WorkspaceInvalid, message);
    status.observed_generation = Some(generation);
    for (kind, holds) in [
        (Type::Ready, Some(false)),
        (Type::Reconciling, None),
        (Type::Stalled, Some(true)),
    ] {
        set_condition(&mut status.conditions, kind, holds, &why, generation, now);
    }
    status
}
