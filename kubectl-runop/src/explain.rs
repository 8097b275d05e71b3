//! What a stored Run means to a person: how urgent it is, where it is, whether a retry comes to something, and whether it
//! is what was waited for. Pure.

use jiff::Timestamp;

use run_operator::api::{ConditionType, Phase, Reason, names};

use crate::args::Goal;
use crate::remedy;
use crate::run::Run;

/// How urgent a Run is, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
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
pub(crate) fn severity(run: &Run) -> Severity {
    let synced = ConditionType::Synced.as_str();
    // A Run whose key another one has resumes without a person: the other one will end.
    let resumes = run.reason() == Some(Reason::KeyInUse);
    if run.is(ConditionType::Failed) {
        Severity::Failed
    } else if run.ended() {
        Severity::Ended
    } else if run.is_stalled() && !resumes {
        Severity::NeedsPerson
    } else if !run.is(ConditionType::Accepted) {
        Severity::Waits
    } else if run.condition().is_some_and(|c| c.type_ == synced) {
        Severity::Stale
    } else {
        Severity::AtWork
    }
}

/// How a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// What was waited for is so.
    Reached,
    /// The run has ended, and it is not so.
    EndedOtherwise,
    /// Nothing more happens until a person acts.
    NeedsPerson,
    /// The object is being deleted, and its run had not ended before that.
    Deleted,
}

/// How a wait for `goal` ends; `None` as long as it goes on. A Run that stalled before a change that the operator has
/// not acted on yet is waited for.
pub(crate) fn outcome(run: &Run, goal: Goal) -> Option<Outcome> {
    let status = run.status.as_ref();
    let deleted = run.metadata.deletion_timestamp.is_some();
    let reached = match goal {
        Goal::Finished => run.ended(),
        Goal::Succeeded => run.is(ConditionType::Complete),
        Goal::Accepted => status.is_some_and(|status| status.run_id.is_some()),
    };
    // A deletion cancels what runs. It is a generation of the object, which an end that came before it has not observed:
    // times, of two clocks and in whole seconds, would decide by chance.
    let observed = status.is_some_and(|s| s.observed_generation == run.metadata.generation);
    if deleted && (observed || !run.ended()) {
        Some(Outcome::Deleted)
    } else if reached {
        Some(Outcome::Reached)
    } else if run.ended() {
        Some(Outcome::EndedOtherwise)
    } else if severity(run) == Severity::NeedsPerson && !has_unseen_change(run) {
        Some(Outcome::NeedsPerson)
    } else {
        None
    }
}

/// Why a retry comes to nothing for this Run, in a sentence with what to do instead; `None` if it submits once more.
pub(crate) fn retry_is_pointless(run: &Run) -> Option<String> {
    if run.metadata.deletion_timestamp.is_some() {
        return Some("It is being deleted.".to_owned());
    }
    if run.manager().is_some() {
        return Some("Another controller runs it, which its spec.managedBy names.".to_owned());
    }
    if run.ended() {
        return Some("It has ended. Create a new Run to run it again.".to_owned());
    }
    if !run.is_stalled() {
        return Some(if run.is(ConditionType::Suspended) {
            "It is suspended. Resume it.".to_owned()
        } else {
            "Nothing was refused for good: it resumes automatically.".to_owned()
        });
    }
    let submitted = run.status.as_ref().is_some_and(|s| s.run_id.is_some());
    match run.reason() {
        Some(
            Reason::Forbidden
            | Reason::ApprovalConflict
            | Reason::VersionConflict
            | Reason::UnknownConflict
            | Reason::Refused
            | Reason::ServerError
            | Reason::ContractViolation
            | Reason::Restored
            | Reason::WorkspaceChanged
            | Reason::IdentityChanged,
        ) if !submitted => None,
        Some(reason) => {
            let instead = remedy::plain(reason).unwrap_or_default();
            Some(format!("A retry doesn't help against {reason}. {instead}"))
        }
        None => Some("This version of the tool doesn't know what it waits for.".to_owned()),
    }
}

/// Whether the operator has not acted on the latest spec, or on a request for a retry that comes to something.
fn has_unseen_change(run: &Run) -> bool {
    let Some(status) = run.status.as_ref().filter(|status| status.is_observed()) else {
        return false;
    };
    let annotations = run.metadata.annotations.as_ref();
    let asked = annotations.and_then(|a| a.get(names::RETRY_ANNOTATION));
    let retries = asked.is_some() && asked != status.handled_retry.as_ref();
    let changed = status.observed_generation < run.metadata.generation;
    changed || retries && retry_is_pointless(run).is_none()
}

/// One line: name, phase, since when, and the reason where the phase doesn't say it.
pub(crate) fn summary(run: &Run, now: Timestamp) -> String {
    let (phase, times, details) = (phase(run), times(run, now), details(run));
    format!("{}: {phase}{times}{details}", run.name())
}

/// The same without times: it changes only when the Run does.
pub(crate) fn state(run: &Run) -> String {
    format!("{}: {}{}", run.name(), phase(run), details(run))
}

fn phase(run: &Run) -> &'static str {
    run.phase()
        .map_or("not seen by an operator yet", Phase::as_str)
}

/// When the run began, as far as it is known.
pub(crate) fn begun(run: &Run) -> Option<Timestamp> {
    let status = run.status.as_ref()?;
    let begun = status.start_time.as_ref();
    Some(begun.or(status.submission_time.as_ref())?.0)
}

/// Since when it is in its phase; of an ended run, when it ended, and how long it took.
fn times(run: &Run, now: Timestamp) -> String {
    let created = run.metadata.creation_timestamp.as_ref().map(|t| t.0);
    let status = run.status.as_ref();
    let since = match run.phase() {
        None | Some(Phase::Pending) => created,
        Some(Phase::Active) => begun(run),
        Some(Phase::Cancelling) => {
            let deleted = run.metadata.deletion_timestamp.as_ref();
            let asked = status.and_then(|s| s.cancel_accepted_time.as_ref());
            deleted.or(asked).map(|time| time.0)
        }
        Some(Phase::Succeeded | Phase::Failed | Phase::Cancelled) => {
            let end = status.and_then(|s| s.completion_time.as_ref());
            return end.map_or(String::new(), |end| {
                let took = begun(run).map(|begun| format!(", after {}", between(begun, end.0)));
                format!(" {} ago{}", between(end.0, now), took.unwrap_or_default())
            });
        }
    };
    since.map_or(String::new(), |at| format!(" for {}", between(at, now)))
}

fn details(run: &Run) -> String {
    let mut text = String::new();
    let state = run.status.as_ref().and_then(|s| s.state.as_deref());
    if let Some(state) = state.filter(|_| !run.ended()) {
        text = format!(", state {state}");
    }
    if let Some(condition) = run.condition() {
        let reason = &condition.reason;
        if condition.type_ == ConditionType::Synced.as_str() {
            text = format!("{text}, not up to date: {reason}");
        } else if reason != phase(run) {
            text = format!("{text}, {reason}");
        }
    }
    if has_unseen_change(run) {
        text.push_str(", before the latest change");
    }
    text
}

/// The time between the two in its two largest units, such as `45s`, `5m30s`, `2d4h`. A negative one, as clocks differ, is
/// `0s`.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> String {
    let mut rest = to.duration_since(from).as_secs().max(0);
    let mut text = String::new();
    let mut units = 0;
    for (size, unit) in [(86_400, 'd'), (3_600, 'h'), (60, 'm'), (1, 's')] {
        let count = rest / size;
        rest %= size;
        units += usize::from(units > 0 || count > 0);
        if count > 0 && units <= 2 {
            text = format!("{text}{count}{unit}");
        }
    }
    if text.is_empty() {
        text.push_str("0s");
    }
    text
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::fixtures::{active, at, ended, new, pending, stalled, suspended, synced_false};

    #[rstest]
    #[case(-5, "0s")]
    #[case(59, "59s")]
    #[case(60, "1m")]
    #[case(330, "5m30s")]
    #[case(3_600 + 5, "1h")]
    #[case(7 * 3_600 + 150, "7h2m")]
    #[case(2 * 86_400 + 4 * 3_600 + 59, "2d4h")]
    #[case(400 * 86_400, "400d")]
    fn a_duration_has_its_two_largest_units(#[case] seconds: i64, #[case] text: &str) {
        assert_eq!(between(at(0), at(seconds)), text);
    }

    #[test]
    fn what_needs_a_person_comes_before_what_does_not() {
        let order = [
            stalled(Reason::Forbidden),
            pending(Reason::WorkspaceNotReady),
            synced_false(Reason::ServiceUnavailable),
            active(),
            ended(Phase::Failed, Reason::Failed),
            ended(Phase::Succeeded, Reason::Succeeded),
        ];
        let order: Vec<Severity> = order.iter().map(severity).collect();
        assert!(order.is_sorted_by(|a, b| a < b), "{order:?}");
    }

    #[rstest]
    #[case::waits_for_a_key(stalled(Reason::KeyInUse), Severity::Waits)]
    #[case::no_operator_has_seen(new(), Severity::Waits)]
    #[case::somebody_else_cancelled(
        ended(Phase::Cancelled, Reason::CancelledElsewhere),
        Severity::Failed
    )]
    #[case::was_cancelled(ended(Phase::Cancelled, Reason::Cancelled), Severity::Ended)]
    fn a_run_that(#[case] run: Run, #[case] expected: Severity) {
        assert_eq!(severity(&run), expected);
    }

    const ALL: [Goal; 3] = [Goal::Finished, Goal::Succeeded, Goal::Accepted];

    fn outcomes(run: &Run) -> [Option<Outcome>; 3] {
        ALL.map(|goal| outcome(run, goal))
    }

    #[rstest]
    #[case(Phase::Succeeded, [Outcome::Reached; 3])]
    #[case(Phase::Failed, [Outcome::Reached, Outcome::EndedOtherwise, Outcome::Reached])]
    fn an_end_ends_each_wait(#[case] phase: Phase, #[case] expected: [Outcome; 3]) {
        let run = ended(phase, Reason::Failed);
        assert_eq!(outcomes(&run), expected.map(Some));
    }

    #[test]
    fn a_run_that_was_never_accepted_and_ended_is_not_awaited() {
        let mut run = ended(Phase::Failed, Reason::CreateRefused);
        run.status.get_or_insert_default().run_id = None;
        assert_eq!(outcome(&run, Goal::Accepted), Some(Outcome::EndedOtherwise));
    }

    /// Proves: K-wait
    #[test]
    fn what_is_on_its_way_is_awaited() {
        assert_eq!(outcomes(&new()), [None; 3]);
        assert_eq!(outcomes(&pending(Reason::WorkspaceNotReady)), [None; 3]);
        let accepted = [None, None, Some(Outcome::Reached)];
        assert_eq!(outcomes(&active()), accepted);
        assert_eq!(outcomes(&stalled(Reason::KeyInUse)), [None; 3]);
    }

    /// Proves: K-wait
    #[test]
    fn a_deletion_ends_each_wait_unless_the_run_had_ended_before() {
        let deleted = |mut run: Run, observed: i64| {
            // The fixture ended at 90, in the same second.
            run.metadata.deletion_timestamp = Some(at(90).into());
            run.metadata.generation = Some(2);
            run.status.get_or_insert_default().observed_generation = Some(observed);
            outcomes(&run)
        };
        let by_deletion = [Some(Outcome::Deleted); 3];
        for observed in [1, 2] {
            assert_eq!(deleted(active(), observed), by_deletion);
        }
        for phase in [Phase::Cancelled, Phase::Succeeded] {
            let end = || ended(phase, Reason::Cancelled);
            assert_eq!(deleted(end(), 2), by_deletion);
            assert_eq!(deleted(end(), 1), outcomes(&end()));
        }
    }

    #[test]
    fn a_stalled_run_ends_a_wait_unless_a_change_is_unseen() {
        let mut run = stalled(Reason::Forbidden);
        let needs_person = [Some(Outcome::NeedsPerson); 3];
        assert_eq!(outcomes(&run), needs_person);
        let retry = (names::RETRY_ANNOTATION.to_owned(), "1".to_owned());
        run.metadata.annotations = Some([retry].into());
        assert_eq!(outcomes(&run), [None; 3]);
        run.status.get_or_insert_default().handled_retry = Some("1".to_owned());
        assert_eq!(outcomes(&run), needs_person);
        run.metadata.generation = Some(2);
        assert_eq!(outcomes(&run), [None; 3]);
    }

    #[rstest]
    #[case(stalled(Reason::Forbidden))]
    #[case(stalled(Reason::Restored))]
    #[case(stalled(Reason::WorkspaceChanged))]
    fn a_refused_run_is_submitted_again(#[case] run: Run) {
        assert_eq!(retry_is_pointless(&run), None);
    }

    /// Proves: K-change
    #[rstest]
    #[case(new(), "resumes automatically")]
    #[case(active(), "resumes automatically")]
    #[case(suspended(), "Resume it")]
    #[case(ended(Phase::Failed, Reason::Failed), "Create a new Run")]
    #[case(
        stalled(Reason::IdempotencyConflict),
        "Use another spec.idempotencyKey"
    )]
    #[case(stalled(Reason::KeyInUse), "Wait for the other Run")]
    #[case(stalled(Reason::BodyChanged), "Create a new Run")]
    fn a_retry_that_comes_to_nothing_is_told_with_what_does(
        #[case] run: Run,
        #[case] instead: &str,
    ) {
        let why = retry_is_pointless(&run).unwrap();
        assert!(why.contains(instead), "{why}");
    }

    #[test]
    fn a_copy_that_came_with_a_run_is_not_submitted() {
        let mut run = stalled(Reason::Restored);
        run.status.get_or_insert_default().run_id = Some("run-1".to_owned());
        assert!(retry_is_pointless(&run).is_some());
    }

    #[rstest]
    #[case(new(), "train: not seen by an operator yet for 14m")]
    #[case(
        pending(Reason::WorkspaceNotReady),
        "train: Pending for 14m, WorkspaceNotReady"
    )]
    #[case(stalled(Reason::Forbidden), "train: Pending for 14m, Forbidden")]
    #[case(active(), "train: Active for 13m30s, state running")]
    #[case(
        synced_false(Reason::ServiceUnavailable),
        "train: Active for 13m30s, state running, not up to date: ServiceUnavailable"
    )]
    #[case(
        ended(Phase::Failed, Reason::DeadlineExceeded),
        "train: Failed 12m30s ago, after 1m, DeadlineExceeded"
    )]
    #[case(
        ended(Phase::Succeeded, Reason::Succeeded),
        "train: Succeeded 12m30s ago, after 1m"
    )]
    fn a_line_says_the_phase_since_when_and_why(#[case] run: Run, #[case] expected: &str) {
        assert_eq!(summary(&run, at(840)), expected);
    }

    #[test]
    fn without_times_a_line_stays_the_same() {
        assert_eq!(state(&active()), "train: Active, state running");
    }
}
