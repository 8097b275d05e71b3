//! How urgent a Run is.

use crate::api::{ConditionType, Phase, Reason};

use super::stored::Stored;

/// How urgent a Run is, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Nothing more happens until a person acts.
    NeedsPerson,
    /// It is not submitted: something is awaited, which may need a person too.
    Waits,
    /// It is at the service, and what is shown of it is old.
    Stale,
    /// It is at the service.
    AtWork,
    /// It failed, or was cancelled by somebody else.
    Failed,
    /// It succeeded, or was cancelled as requested.
    Ended,
}

/// How urgent a Run is.
pub fn of(run: Stored<'_>) -> Standing {
    let stalled = run.holds(ConditionType::Stalled);
    match run.phase() {
        Some(phase) if phase.terminal() => {
            if phase == Phase::Failed || stalled {
                Standing::Failed
            } else {
                Standing::Ended
            }
        }
        _ if stalled && !run.reason().is_some_and(resumes_automatically) => Standing::NeedsPerson,
        None | Some(Phase::Pending) => Standing::Waits,
        Some(_) if is_stale(run) => Standing::Stale,
        Some(_) => Standing::AtWork,
    }
}

/// Whether a Run that is Stalled for this reason resumes without a person: another Run has its key, and will end.
pub fn resumes_automatically(reason: Reason) -> bool {
    reason == Reason::KeyInUse
}

fn is_stale(run: Stored<'_>) -> bool {
    run.telling()
        .is_some_and(|c| c.type_ == ConditionType::Synced.as_str())
}

#[cfg(test)]
mod tests {
    use crate::decide::explain::fixtures::{Example, ended, pending, stalled, synced_false};

    use super::*;

    fn standing(example: &Example) -> Standing {
        of(example.stored())
    }

    #[test]
    fn what_needs_a_person_comes_before_what_does_not() {
        let order = [
            stalled(Reason::Forbidden),
            pending(Reason::WorkspaceNotReady),
            synced_false(Reason::ServiceUnavailable),
            Example::active(),
            ended(Phase::Failed, Reason::Failed),
            ended(Phase::Succeeded, Reason::Succeeded),
        ];
        let standings: Vec<Standing> = order.iter().map(standing).collect();
        assert!(standings.is_sorted_by(|a, b| a < b), "{standings:?}");
    }

    #[test]
    fn a_run_that_waits_for_a_key_needs_nobody() {
        assert_eq!(standing(&stalled(Reason::KeyInUse)), Standing::Waits);
    }

    #[test]
    fn a_run_that_no_operator_has_seen_waits() {
        assert_eq!(standing(&Example::new()), Standing::Waits);
    }

    #[test]
    fn a_run_that_somebody_else_cancelled_has_failed() {
        let run = ended(Phase::Cancelled, Reason::CancelledElsewhere);
        assert_eq!(standing(&run), Standing::Failed);
        let run = ended(Phase::Cancelled, Reason::Cancelled);
        assert_eq!(standing(&run), Standing::Ended);
    }
}
