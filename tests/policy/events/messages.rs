//! The texts of Kubernetes Events: what they name, and that they fit.

use run_operator::{
    api::EventReason,
    decide::{
        EventDraft,
        event_buffer::Received,
        failure::{Failure, FailureKind},
    },
};

use super::{NOTE_LIMIT, message};
use crate::{
    conditions::at_the_service,
    support::{Case, bare, problem},
};

/// Proves: P-events
#[test]
fn an_event_names_run_key_and_request() {
    let case = at_the_service("running").settle();
    assert_eq!(
        message(&case, EventReason::Submitted),
        "The service accepted the run as run-1 (idempotency key 6f1f0c0e-0000-4000-8000-000000000001, request req-1)."
    );
    let failed = at_the_service("ERROR").settle();
    assert_eq!(
        message(&failed, EventReason::Failed),
        "The run ended as ERROR. Create a new Run to run it again. (run run-1, request req-1)"
    );
    let refused = Case::new()
        .mine()
        .posted(Err(problem(403, "bad_image")))
        .settle();
    let said = message(&refused, EventReason::Stalled);
    for part in [
        "Forbidden: ",
        "403 bad_image",
        "Request id req-9",
        "idempotency key 6f1f",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
}

/// Proves: P-events
#[test]
fn the_text_of_the_service_has_no_control_codes_and_fits() {
    let mut case = at_the_service("running").settle();
    let event = Received {
        id: Some("\u{1b}[2J".into()),
        kind: "log\r\n".into(),
        data: format!("\u{1b}[31mred\u{202e}\n{}", "é".repeat(2000)),
    };
    let now = case.now;
    case.tracked
        .memory
        .event_buffer
        .receive(&event, Some("running"), Some("running"), now);
    let said = message(&case.at(10).settle(), EventReason::ServiceEvent);
    assert!(
        said.contains("(log\\u{d}\\u{a}, id \\u{1b}[2J): \\u{1b}[31mred\\u{202e}\\u{a}é"),
        "{said}"
    );
    assert!(
        !said.chars().any(char::is_control) && said.len() <= NOTE_LIMIT,
        "{said}"
    );
}

/// Proves: P-events
#[test]
fn no_text_exceeds_the_limit_of_an_event() {
    let long = "ü".repeat(4000);
    let failure = Failure {
        kind: FailureKind::Answered,
        message: long.clone(),
        request_id: Some(long.clone()),
        code: Some(long.clone()),
        ..problem(403, "no")
    };
    let case = Case::new().mine().posted(Err(failure)).settle();
    let orphaned = EventDraft::orphaned(Some(&long), Some(&long));
    let others = [orphaned, EventDraft::cancel_unconfirmed(&long)];
    for event in case.events.iter().chain(&others) {
        assert!(event.message.len() <= NOTE_LIMIT, "{}", event.message.len());
    }
}

/// Three bytes each, and eight as they are shown.
#[test]
fn ids_at_the_end_of_a_message_are_never_truncated() {
    let odd = "\u{202e}".repeat(4000);
    let failure = || Failure {
        message: odd.clone(),
        request_id: Some(odd.clone()),
        code: Some(odd.clone()),
        ..bare(502)
    };
    let case = (0..3).fold(at_the_service("queued"), |c, _| c.got(Err(failure())));
    let said = message(&case.settle(), EventReason::Retrying);
    assert!(said.ends_with(" (run run-1)"), "{said}");
    let refused = Failure {
        kind: FailureKind::Answered,
        ..problem(403, &odd)
    };
    let case = Case::new().mine().posted(Err(refused)).settle();
    let said = message(&case, EventReason::Stalled);
    assert!(said.contains(" (idempotency key 6f1f"), "{said}");
    let orphaned = EventDraft::orphaned(Some("the-key"), Some(&odd));
    assert!(orphaned.message.contains("the-key"));
}

#[test]
fn every_reason_and_its_action_are_alphanumeric() {
    for reason in EventReason::ALL {
        let word = |text: &str| text.chars().all(char::is_alphanumeric) && !text.is_empty();
        assert!(word(reason.as_str()) && word(reason.action()));
    }
}
