//! Changes of a Workspace that deserve an Event.

use jiff::Timestamp;

use crate::api::{ConditionType as Type, EventReason, Reason, WorkspaceStatus, conditions::find};
use crate::decide::events::{correlator::Correlator, event::EventDraft};

use super::{Fact, sentence, unpublished};

/// Events for the change of a status from `before` to `after`. `waits`: the Workspace is being deleted and waits for
/// Runs; `wall` is the wall clock.
pub fn of_workspace(
    before: Option<&WorkspaceStatus>,
    after: &WorkspaceStatus,
    waits: bool,
    correlator: &Correlator,
    wall: Timestamp,
) -> Vec<EventDraft> {
    let before = before.and_then(|status| workspace_fact(status, waits));
    let after = workspace_fact(after, waits);
    unpublished(before.as_slice(), after.as_slice(), correlator, wall)
}

fn workspace_fact(status: &WorkspaceStatus, waits: bool) -> Option<Fact<'_>> {
    let ready = find(&status.conditions, Type::Ready)?;
    let since = ready.last_transition_time.0;
    if ready.status == "True" {
        let message = move || sentence(ready).into_owned();
        let fact = Fact::new(EventReason::Ready, "", message);
        return Some(fact.since(Some(since)).at(since));
    }
    let is = |reason: Reason| ready.reason == reason.as_str();
    let reason = if is(Reason::Checking) {
        return None;
    } else if is(Reason::Unauthorized) || is(Reason::WorkspaceMismatch) {
        EventReason::CredentialsRejected
    } else if is(Reason::VersionNotAccepted) {
        EventReason::VersionNotAccepted
    } else if is(Reason::WorkspaceDeleting) {
        if !waits {
            return None;
        }
        EventReason::WorkspaceInUse
    } else {
        EventReason::NotReady
    };
    let message = move || format!("{}: {}", ready.reason, sentence(ready));
    let fact = Fact::new(reason, &ready.reason, message);
    Some(fact.since(Some(since)).at(since))
}
