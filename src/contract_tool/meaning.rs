//! Meaning of a contract file's change for Runs, in a sentence or two.

use std::borrow::Cow;

use run_operator::api::Contract;
use run_operator::api::contract::{Change, Difference, Field};

type Sentence = Cow<'static, str>;

/// Meaning of a change for Runs.
pub(super) fn of(change: &Change, old: &Contract, new: &Contract) -> Sentence {
    let field = change.field;
    match &change.what {
        Difference::Pointers { .. } => pointers(field).into(),
        Difference::Number { old, new } => number(field, new > old).into(),
        Difference::Moved { to, .. } => word(Some(field), Some(*to)),
        Difference::Added(value) => match field {
            Field::VersionAccepted => accepted(value, old),
            _ => word(None, Some(field)),
        },
        Difference::Removed(value) => match field {
            Field::VersionAccepted => not_accepted(value, new),
            _ => word(Some(field), None),
        },
    }
}

fn accepted(version: &str, old: &Contract) -> Sentence {
    match covering(version, old) {
        Some(by) => format!("Nothing: {by:?} accepted it before.").into(),
        None => "New Runs are submitted to a service that reports such a version.".into(),
    }
}

fn not_accepted(version: &str, new: &Contract) -> Sentence {
    match covering(version, new) {
        Some(by) => format!("Nothing: {by:?} still accepts it.").into(),
        None => "Where the service reports such a version, new submissions stop; Runs already submitted are mirrored and cancelled.".into(),
    }
}

/// An entry that accepts every version that `version` accepts.
fn covering<'a>(version: &str, contract: &'a Contract) -> Option<&'a String> {
    let accepts = |entry: &&String| match entry.strip_suffix('*') {
        Some(prefix) => version
            .strip_suffix('*')
            .unwrap_or(version)
            .starts_with(prefix),
        None => *entry == version,
    };
    contract.accepted_versions().iter().find(accepts)
}

fn pointers(field: Field) -> &'static str {
    match field {
        Field::VersionPointers => {
            "The version is read elsewhere: where none is found, Workspaces become VersionNotAccepted, and new submissions stop."
        }
        Field::RunIdPointers => {
            "The runId is read elsewhere: a create whose answer has none is repeated with the same key, five times, then ContractViolation. Where another id is found, submitted Runs can no longer be read."
        }
        Field::RunStatePointers => {
            "The state is read elsewhere: where none is found, Runs stay as they are and never end."
        }
        Field::EventStatePointers => {
            "An event's state is read elsewhere: an event without one costs a GET, and nothing else."
        }
        _ => {
            "The identity is read elsewhere: where another one is found, submitted Runs are pinned to the old one, make no call and show IdentityChanged until it is back."
        }
    }
}

fn number(field: Field, larger: bool) -> &'static str {
    match (field, larger) {
        (Field::KeyRetentionSeconds, true) => {
            "A create in doubt is repeated for longer: if the service forgets its key sooner, a second run is possible."
        }
        (Field::KeyRetentionSeconds, false) => {
            "A create in doubt is repeated for a shorter time, then a person has to decide (SubmissionUnknown), also for Runs that are in doubt already."
        }
        (Field::BodyBytes, true) => {
            "Larger answers are read; every call in flight may take so much memory."
        }
        (Field::BodyBytes, false) => "Answers between the two sizes become ContractViolation.",
        (Field::EventLineBytes | Field::EventBytes, true) => {
            "Larger events are read; every open stream may take so much memory."
        }
        (Field::EventLineBytes | Field::EventBytes, false) => {
            "Events between the two sizes are discarded, and the run is read by GET instead."
        }
        (Field::StreamIdleSeconds, true) => "A stream that died silently is noticed later.",
        (Field::StreamIdleSeconds, false) => {
            "Streams that are silent for longer are reopened again and again."
        }
        (_, true) => "A call that hangs is given up later.",
        (_, false) => {
            "Slower calls fail and are retried; a create is in doubt until the same POST is answered."
        }
    }
}

/// A word of a list that leaves one, enters one, or both.
fn word(from: Option<Field>, to: Option<Field>) -> Sentence {
    let is_state = |field: Option<Field>| field.is_some_and(|field| state(field).is_some());
    if is_state(from) || is_state(to) {
        return state_meaning(from.and_then(state), to.and_then(state));
    }
    let sentences = match (from, to) {
        // Neither list holds proofs.
        (Some(Field::IdempotencyConflict), Some(Field::IdempotencyInProgress)) => {
            [None, to.and_then(entered)]
        }
        (Some(Field::IdempotencyInProgress), Some(Field::IdempotencyConflict)) => [
            Some("A create refused with this code is not repeated: the Run is Stalled."),
            None,
        ],
        _ => [from.and_then(left), to.and_then(entered)],
    };
    let sentences: Vec<&str> = sentences.into_iter().flatten().collect();
    if sentences.is_empty() {
        return "Only the reason of a refused create changes.".into();
    }
    sentences.join(" ").into()
}

/// Meaning of a list of states.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Pending,
    Active,
    Cancelling,
    End(&'static str),
}

fn state(field: Field) -> Option<State> {
    match field {
        Field::Pending => Some(State::Pending),
        Field::Active => Some(State::Active),
        Field::Cancelling => Some(State::Cancelling),
        Field::Succeeded => Some(State::End("Succeeded")),
        Field::Failed => Some(State::End("Failed")),
        Field::Cancelled => Some(State::End("Cancelled")),
        _ => None,
    }
}

fn state_meaning(from: Option<State>, to: Option<State>) -> Sentence {
    match (from, to) {
        (Some(State::End(from)), Some(State::End(to))) => format!(
            "A run that ends in this state makes its Run {to} and not {from}; Runs that have ended stay as they are."
        )
        .into(),
        (Some(State::End(_)), Some(_)) => {
            "A run in this state counts as active: its Run never ends, and a deleted object waits for another end.".into()
        }
        (Some(State::End(_)), None) => {
            "A run in this state counts as active: its Run never ends, an Event notes the state (UnmappedState), and a deleted object waits for another end.".into()
        }
        (_, Some(State::End(to))) => format!(
            "A run in this state counts as ended: its Run is {to}, no further call is made, and a deleted object loses its finalizer. If a run can leave this state again, it is left behind."
        )
        .into(),
        (_, Some(State::Cancelling)) => {
            "A deleted object whose cancellation was accepted may lose its finalizer five minutes later, once its run is seen in this state.".into()
        }
        (Some(State::Cancelling), _) => {
            "A deletion repeats the cancellation while the run is in this state, until an end is seen.".into()
        }
        (Some(_), None) => "It counts as active as before, and an Event notes it (UnmappedState).".into(),
        (Some(State::Active), _) => "It no longer sets status.startTime.".into(),
        (Some(_), _) => "The first read that shows it sets status.startTime.".into(),
        (None, _) => "It counts as active as before, and an Event no longer notes it.".into(),
    }
}

/// Meaning of a word's removal from this list.
fn left(field: Field) -> Option<&'static str> {
    match field {
        Field::IdempotencyConflict => Some(
            "A create refused with this code counts as proof that no run was made: if one was, it is left behind.",
        ),
        Field::IdempotencyInProgress => Some(
            "A create refused with this code is not repeated, and counts as proof that no run was made: if one is being made, it is left behind.",
        ),
        Field::RunNotFound => Some(
            "A 404 with this code no longer proves anything: a run that no longer exists is polled up to every --poll-max, and its deleted object stays.",
        ),
        Field::RefusedFor => Some(
            "A create in doubt with this answer is repeated with the same key, and is not given up.",
        ),
        Field::ProviderKeyPrefixes => Some(
            "A provider's key that begins so, and with no other prefix, would be sent as a token.",
        ),
        _ => None,
    }
}

/// Meaning of a word's addition to this list.
fn entered(field: Field) -> Option<&'static str> {
    match field {
        Field::IdempotencyConflict => Some(
            "A create refused with this code no longer proves that no run was made: it stays in doubt.",
        ),
        Field::IdempotencyInProgress => Some(
            "A create refused with this code is repeated with the same key until it is answered otherwise, and proves nothing.",
        ),
        Field::RunNotFound => Some(
            "A 404 with this code means that the run doesn't exist: three of them fail the Run (RunNotFound), and a deleted object loses its finalizer.",
        ),
        Field::RefusedFor => Some(
            "A create with this answer ends the Run as Failed: if the service can make the run all the same, it is left behind.",
        ),
        Field::ProviderKeyPrefixes => {
            Some("A token that begins so is refused before it is sent (TokenIsProviderKey).")
        }
        _ => None,
    }
}
