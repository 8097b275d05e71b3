//! The two moments of a Run's life that are measured: its submission and its end. Each is the difference between two
//! versions of the object. So a process that starts, and sees a Run that has ended, doesn't count its end again.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{ConditionType, Phase, Reason, Run, RunStatus, conditions::find};

use super::memory::Memory;

/// The ends that the operator writes: outcome, and reason of the condition Finished.
pub const ENDS: [(Phase, Reason); 8] = [
    (Phase::Succeeded, Reason::Succeeded),
    (Phase::Failed, Reason::Failed),
    (Phase::Failed, Reason::DeadlineExceeded),
    (Phase::Failed, Reason::CreateRefused),
    (Phase::Failed, Reason::RunTooLarge),
    (Phase::Failed, Reason::RunNotFound),
    (Phase::Cancelled, Reason::Cancelled),
    (Phase::Cancelled, Reason::CancelledElsewhere),
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Milestones {
    /// Time from the creation of the object until the service accepted the run.
    pub waited: Option<Duration>,
    pub end: Option<RunEnd>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    pub outcome: Phase,
    pub reason: Reason,
    /// Time from the submission until the end was seen; `None` of a Run that was not submitted.
    pub took: Option<Duration>,
    /// Time since this process first heard of the end from the service; `None` if it didn't.
    pub lag: Option<Duration>,
}

impl Milestones {
    /// What `after` is the first version to show. `now`: the process time at which it was written or read.
    pub fn between(before: &Run, after: &Run, memory: &Memory, now: Timestamp) -> Self {
        let Some(status) = &after.status else {
            return Self::default();
        };
        let submitted = before
            .status
            .as_ref()
            .and_then(|s| s.submission_time.as_ref());
        let created = after.metadata.creation_timestamp.as_ref();
        let times = created.zip(status.submission_time.as_ref());
        let waited = times.filter(|_| submitted.is_none());
        Self {
            waited: waited.map(|(created, accepted)| since(created.0, accepted.0)),
            end: end(before, status).map(|(outcome, reason)| RunEnd {
                outcome,
                reason,
                took: took(status),
                lag: memory.end_heard.map(|heard| since(heard, now)),
            }),
        }
    }
}

fn end(before: &Run, status: &RunStatus) -> Option<(Phase, Reason)> {
    let outcome = status.phase.filter(|phase| phase.terminal())?;
    // A status that was lost after the end is restored from the intent: that end was counted.
    let counted = || {
        before
            .intent_record()
            .own()
            .is_some_and(|intent| intent.end.is_some())
    };
    if before.ended() || counted() {
        return None;
    }
    let finished = find(&status.conditions, ConditionType::Finished);
    let reason = finished.and_then(|finished| Reason::named(&finished.reason));
    Some((outcome, reason.unwrap_or(outcome.reason())))
}

fn took(status: &RunStatus) -> Option<Duration> {
    let (submitted, completed) = (&status.submission_time, &status.completion_time);
    Some(since(submitted.as_ref()?.0, completed.as_ref()?.0))
}

/// Zero if the clock was set back in between.
fn since(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use crate::api::names;

    use super::*;

    const HEARD: &str = "2026-01-01T03:00:01Z";
    const WRITTEN: &str = "2026-01-01T03:00:01.25Z";

    /// A Run of midnight with this status.
    fn run(status: &Value) -> Run {
        let run = json!({
            "metadata": {"name": "a", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"workload": {"image": "i"}},
            "status": status,
        });
        serde_json::from_value(run).unwrap()
    }

    fn submitted() -> Value {
        json!({"phase": "Active", "runID": "r", "submissionTime": "2026-01-01T01:00:00Z"})
    }

    fn ended(phase: &str, reason: &str) -> Value {
        let finished = json!({
            "type": "Finished", "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": HEARD,
        });
        let mut status = submitted();
        status["phase"] = phase.into();
        status["completionTime"] = "2026-01-01T03:00:00Z".into();
        status["conditions"] = json!([finished]);
        status
    }

    fn between(before: &Run, after: &Run) -> Milestones {
        let mut memory = Memory::default();
        memory.end_heard = HEARD.parse().ok();
        Milestones::between(before, after, &memory, WRITTEN.parse().unwrap())
    }

    /// Proves: P-metrics
    #[test]
    fn a_submission_is_measured_once_from_the_creation_on() {
        let (new, active) = (run(&json!({"phase": "Pending"})), run(&submitted()));
        let waited = between(&new, &active).waited;
        assert_eq!(waited, Some(Duration::from_hours(1)));
        assert_eq!(between(&active, &active), Milestones::default());
    }

    /// Proves: P-metrics
    #[test]
    fn an_end_is_measured_once_from_the_submission_on() {
        let (active, over) = (run(&submitted()), run(&ended("Failed", "DeadlineExceeded")));
        let end = RunEnd {
            outcome: Phase::Failed,
            reason: Reason::DeadlineExceeded,
            took: Some(Duration::from_hours(2)),
            lag: Some(Duration::from_millis(250)),
        };
        let first = between(&active, &over);
        assert_eq!((first.end, first.waited), (Some(end), None));
        assert_eq!(between(&over, &over), Milestones::default());
    }

    /// Proves: P-metrics
    #[test]
    fn an_end_without_a_submission_has_no_duration() {
        let mut status = ended("Cancelled", "Cancelled");
        status["runID"] = Value::Null;
        status["submissionTime"] = Value::Null;
        let new = run(&json!({"phase": "Pending"}));
        let end = between(&new, &run(&status)).end.unwrap();
        assert_eq!((end.outcome, end.took), (Phase::Cancelled, None));
    }

    /// Proves: P-metrics
    #[rstest]
    #[case::of_a_later_version("OfALaterVersion")]
    #[case::none("")]
    fn a_reason_that_is_not_known_is_that_of_the_outcome(#[case] reason: &str) {
        let over = run(&ended("Failed", reason));
        let end = between(&run(&submitted()), &over).end.unwrap();
        assert_eq!(end.reason, Reason::Failed);
    }

    /// Proves: P-metrics
    #[test]
    fn an_end_that_is_restored_from_the_intent_is_not_measured_again() {
        let workspace =
            json!({"kind": "Workspace", "name": "default", "uid": "w", "baseURL": "https://a"});
        let intent = json!({
            "uid": "u", "workspace": workspace, "key": "k", "sha256": "", "serializer": 1,
            "time": "2026-01-01T00:00:00Z", "owner": "p", "epoch": 1,
            "end": {"runID": "r", "phase": "Succeeded", "reason": "Succeeded"},
        });
        let mut lost = run(&json!({"phase": "Pending"}));
        let annotation = (names::INTENT_ANNOTATION.to_owned(), intent.to_string());
        lost.metadata.annotations = Some([annotation].into());
        assert!(lost.intent_record().own().is_some(), "it can be read");
        let restored = run(&ended("Succeeded", "Succeeded"));
        assert_eq!(between(&lost, &restored).end, None);
    }

    /// Proves: P-metrics
    #[test]
    fn a_clock_that_was_set_back_makes_no_time_negative() {
        let mut status = ended("Succeeded", "Succeeded");
        status["completionTime"] = "2026-01-01T00:30:00Z".into();
        let end = between(&run(&submitted()), &run(&status)).end.unwrap();
        assert_eq!(end.took, Some(Duration::ZERO));
    }
}
