//! When a wait for a Run is over, and how.

use crate::api::Phase;

use super::stored::Stored;
use super::{
    retry,
    standing::{self, Standing},
};

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The run has ended, in whatever way.
    Finished,
    /// The run has succeeded.
    Succeeded,
    /// The service has accepted the run.
    Accepted,
}

/// How a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What was waited for is so.
    Reached,
    /// The run has ended, and it is not so.
    EndedOtherwise,
    /// Nothing more happens until a person acts.
    NeedsPerson,
}

/// How a wait for `goal` ends; `None` as long as it goes on. A Run that stalled before a change that the operator has
/// not acted on yet is waited for.
pub fn of(run: Stored<'_>, goal: Goal) -> Option<Verdict> {
    let reached = match goal {
        Goal::Finished => run.ended(),
        Goal::Succeeded => run.phase() == Some(Phase::Succeeded),
        Goal::Accepted => run.status.is_some_and(|status| status.run_id.is_some()),
    };
    if reached {
        Some(Verdict::Reached)
    } else if run.ended() {
        Some(Verdict::EndedOtherwise)
    } else if standing::of(run) == Standing::NeedsPerson && !retry::is_unseen_change(run) {
        Some(Verdict::NeedsPerson)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::api::{Reason, names};
    use crate::decide::explain::fixtures::{Example, ended, pending, stalled};

    const ALL: [Goal; 3] = [Goal::Finished, Goal::Succeeded, Goal::Accepted];

    fn verdicts(example: &Example) -> [Option<Verdict>; 3] {
        ALL.map(|goal| of(example.stored(), goal))
    }

    #[rstest]
    #[case(Phase::Succeeded, [Verdict::Reached; 3])]
    #[case(Phase::Failed, [Verdict::Reached, Verdict::EndedOtherwise, Verdict::Reached])]
    fn an_end_ends_each_wait(#[case] phase: Phase, #[case] expected: [Verdict; 3]) {
        let run = ended(phase, Reason::Failed);
        assert_eq!(verdicts(&run), expected.map(Some));
    }

    #[test]
    fn a_run_that_was_never_accepted_and_ended_is_not_awaited() {
        let mut run = ended(Phase::Failed, Reason::CreateRefused);
        run.status_mut().run_id = None;
        assert_eq!(
            of(run.stored(), Goal::Accepted),
            Some(Verdict::EndedOtherwise)
        );
    }

    /// Proves: K-wait
    #[test]
    fn what_is_on_its_way_is_awaited() {
        assert_eq!(verdicts(&Example::new()), [None; 3]);
        assert_eq!(verdicts(&pending(Reason::WorkspaceNotReady)), [None; 3]);
        let active = verdicts(&Example::active());
        assert_eq!(active, [None, None, Some(Verdict::Reached)]);
        assert_eq!(verdicts(&stalled(Reason::KeyInUse)), [None; 3]);
    }

    #[test]
    fn a_stalled_run_ends_a_wait_unless_a_change_is_unseen() {
        let mut run = stalled(Reason::Forbidden);
        assert_eq!(verdicts(&run), [Some(Verdict::NeedsPerson); 3]);
        run.annotate(names::RETRY_ANNOTATION, "1");
        assert_eq!(verdicts(&run), [None; 3]);
        run.status_mut().handled_retry = Some("1".to_owned());
        assert_eq!(verdicts(&run), [Some(Verdict::NeedsPerson); 3]);
        run.meta.generation = Some(2);
        assert_eq!(verdicts(&run), [None; 3]);
    }
}
