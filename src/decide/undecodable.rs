//! Status of an object that the operator can't decode: nothing is done for it until it changes.

use jiff::Timestamp;

use crate::api::{
    ConditionType as Type, Phase, Reason, RunStatus, WorkspaceStatus, run::ReadyWhen,
};

use super::conditions::{Conditions, Why, apply, set_condition};

const REMEDY: &str = "Correct it, or apply the CRDs of this operator's version.";

/// The status of a Run that can't be decoded. `what` names the part, never its content. A Run that has ended stays as
/// it is.
pub fn run(mut status: RunStatus, what: &str, generation: i64, now: Timestamp) -> RunStatus {
    if status.phase.is_some_and(Phase::terminal) {
        return status;
    }
    let why = Why::new(
        Reason::RunInvalid,
        format!(
            "The operator can't read this Run: {what}. Nothing is done for it until it changes. {REMEDY}"
        ),
    );
    let blocked = Conditions::Blocked(why);
    apply(&mut status, &blocked, ReadyWhen::default(), generation, now);
    status
}

/// The status of a Workspace that can't be decoded.
pub fn workspace(
    mut status: WorkspaceStatus,
    what: &str,
    generation: i64,
    now: Timestamp,
) -> WorkspaceStatus {
    let why = Why::new(
        Reason::WorkspaceInvalid,
        format!("The operator can't read this Workspace: {what}. Its Runs wait. {REMEDY}"),
    );
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
