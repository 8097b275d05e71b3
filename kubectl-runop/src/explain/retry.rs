//! Whether a retry could come to anything.

use crate::api::{ConditionType, Reason, names};

use super::remedy;
use super::stored::Stored;

/// Why a retry comes to nothing for this Run, in a sentence with what to do instead; `None` if it submits once more.
pub fn pointless(run: Stored<'_>) -> Option<String> {
    if run.meta.deletion_timestamp.is_some() {
        return Some("It is being deleted.".to_owned());
    }
    if run.ended() {
        return Some("It has ended. Create a new Run to run it again.".to_owned());
    }
    if !run.holds(ConditionType::Stalled) {
        return Some(match run.reason() {
            Some(Reason::Suspended) => "It is suspended. Resume it.".to_owned(),
            _ => "Nothing was refused for good: it resumes automatically.".to_owned(),
        });
    }
    let reason = run.reason()?;
    (!submits_again(reason, run)).then(|| {
        let instead = remedy::plain(reason).unwrap_or_default();
        format!("A retry doesn't help against {reason}. {instead}")
            .trim_end()
            .to_owned()
    })
}

/// Whether the operator has not acted on the latest spec, or on a request for a retry that comes to something.
pub fn is_unseen_change(run: Stored<'_>) -> bool {
    let Some(status) = run.status.filter(|status| status.phase.is_some()) else {
        return false;
    };
    let annotations = run.meta.annotations.as_ref();
    let asked = annotations.and_then(|a| a.get(names::RETRY_ANNOTATION));
    let retries = asked.is_some() && asked != status.handled_retry.as_ref();
    let changed = status.observed_generation < run.meta.generation;
    changed || retries && pointless(run).is_none()
}

/// Whether a stalled Run with this reason is submitted again on request.
fn submits_again(reason: Reason, run: Stored<'_>) -> bool {
    let unsubmitted = run.status.is_none_or(|status| status.run_id.is_none());
    match reason {
        Reason::Forbidden
        | Reason::ApprovalConflict
        | Reason::VersionConflict
        | Reason::UnknownConflict
        | Reason::Refused
        | Reason::ServerError
        | Reason::ContractViolation
        | Reason::Restored
        | Reason::WorkspaceChanged
        | Reason::IdentityChanged => unsubmitted,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::api::Phase;
    use crate::decide::explain::fixtures::{Example, ended, pending, stalled};

    #[rstest]
    #[case(stalled(Reason::Forbidden))]
    #[case(stalled(Reason::Restored))]
    #[case(stalled(Reason::WorkspaceChanged))]
    fn a_refused_run_is_submitted_again(#[case] run: Example) {
        assert_eq!(pointless(run.stored()), None);
    }

    /// Proves: K-retry
    #[rstest]
    #[case(Example::new(), "resumes automatically")]
    #[case(Example::active(), "resumes automatically")]
    #[case(pending(Reason::Suspended), "Resume it")]
    #[case(ended(Phase::Failed, Reason::Failed), "Create a new Run")]
    #[case(
        stalled(Reason::IdempotencyConflict),
        "Use another spec.idempotencyKey"
    )]
    #[case(stalled(Reason::KeyInUse), "Wait for the other Run")]
    #[case(stalled(Reason::BodyChanged), "Create a new Run")]
    fn a_retry_that_comes_to_nothing_is_told_with_what_does(
        #[case] run: Example,
        #[case] instead: &str,
    ) {
        let why = pointless(run.stored()).unwrap();
        assert!(why.contains(instead), "{why}");
    }

    #[test]
    fn a_copy_that_came_with_a_run_is_not_submitted() {
        let mut run = stalled(Reason::Restored);
        run.status_mut().run_id = Some("run-1".to_owned());
        assert!(pointless(run.stored()).is_some());
    }
}
