//! A Run in one line.

use jiff::Timestamp;

use crate::api::{ConditionType, Phase};

use super::stored::Stored;
use super::{duration, retry};

/// One line: name, phase, since when, and the reason where the phase doesn't say it.
pub fn summary(run: Stored<'_>, now: Timestamp) -> String {
    let name = run.meta.name.as_deref().unwrap_or_default();
    format!("{name}: {}{}{}", phase(run), times(run, now), details(run))
}

/// The same without times: it changes only when the Run does.
pub fn state(run: Stored<'_>) -> String {
    let name = run.meta.name.as_deref().unwrap_or_default();
    format!("{name}: {}{}", phase(run), details(run))
}

fn phase(run: Stored<'_>) -> &'static str {
    run.phase()
        .map_or("not seen by an operator yet", Phase::as_str)
}

/// Since when it is in its phase; of an ended run, when it ended, and how long it took.
fn times(run: Stored<'_>, now: Timestamp) -> String {
    let since = |from: Option<Timestamp>| match from {
        Some(at) => format!(" for {}", duration::between(at, now)),
        None => String::new(),
    };
    let created = run.meta.creation_timestamp.as_ref().map(|t| t.0);
    let (Some(status), Some(phase)) = (run.status, run.phase()) else {
        return since(created);
    };
    let begun = status
        .start_time
        .as_ref()
        .or(status.submission_time.as_ref());
    let begun = begun.map(|t| t.0);
    match phase {
        Phase::Pending => since(created),
        Phase::Active => since(begun),
        Phase::Cancelling => {
            let asked = run.meta.deletion_timestamp.as_ref();
            let asked = asked.or(status.cancel_accepted_time.as_ref());
            since(asked.map(|t| t.0))
        }
        Phase::Succeeded | Phase::Failed | Phase::Cancelled => {
            let Some(end) = status.completion_time.as_ref().map(|t| t.0) else {
                return String::new();
            };
            let took = begun.map_or(String::new(), |begun| {
                format!(", after {}", duration::between(begun, end))
            });
            format!(" {} ago{took}", duration::between(end, now))
        }
    }
}

fn details(run: Stored<'_>) -> String {
    let Some(status) = run.status else {
        return String::new();
    };
    let state = status.state.as_deref().filter(|_| !run.ended());
    let reason = run.telling().and_then(|condition| {
        let reason = &condition.reason;
        if condition.type_ == ConditionType::Synced.as_str() {
            Some(format!(", not up to date: {reason}"))
        } else {
            (reason != phase(run)).then(|| format!(", {reason}"))
        }
    });
    let unseen = retry::is_unseen_change(run).then(|| ", before the latest change".to_owned());
    let parts = [
        state.map(|state| format!(", state {state}")),
        reason,
        unseen,
    ];
    parts.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Reason;
    use crate::decide::explain::fixtures::{Example, at, ended, pending, stalled, synced_false};

    fn line(run: &Example) -> String {
        summary(run.stored(), at(840))
    }

    #[test]
    fn a_line_says_the_phase_since_when_and_why() {
        for (run, expected) in [
            (Example::new(), "train: not seen by an operator yet for 14m"),
            (
                pending(Reason::WorkspaceNotReady),
                "train: Pending for 14m, WorkspaceNotReady",
            ),
            (
                stalled(Reason::Forbidden),
                "train: Pending for 14m, Forbidden",
            ),
            (Example::active(), "train: Active for 13m, state running"),
            (
                synced_false(Reason::ServiceUnavailable),
                "train: Active for 13m, state running, not up to date: ServiceUnavailable",
            ),
            (
                ended(Phase::Failed, Reason::DeadlineExceeded),
                "train: Failed 12m ago, after 60s, DeadlineExceeded",
            ),
            (
                ended(Phase::Succeeded, Reason::Succeeded),
                "train: Succeeded 12m ago, after 60s",
            ),
        ] {
            assert_eq!(line(&run), expected);
        }
    }

    #[test]
    fn without_times_a_line_stays_the_same() {
        assert_eq!(
            state(Example::active().stored()),
            "train: Active, state running"
        );
    }
}
