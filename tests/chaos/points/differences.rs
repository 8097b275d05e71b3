//! Differences between the ends of two lives, and those that the documents allow.

use std::collections::BTreeSet;

use clap::ValueEnum;

use super::outcome::Outcome;
use super::plan::Fault;
use super::table::Case;

/// The differences that are not allowed, a line each.
pub(super) fn differences(case: &Case, expected: &Outcome, seen: &Outcome) -> Vec<String> {
    let things: BTreeSet<_> = expected.keys().chain(seen.keys()).collect();
    let gone = |thing: &str, word: &str| expected.get(thing).is_some_and(|seen| seen == word);
    let gone = Gone {
        run: gone("object", "false"),
        workspace: gone("workspace", "null"),
    };
    let of = |outcome: &Outcome, thing: &str| outcome.get(thing).cloned().unwrap_or_default();
    let differing = things
        .into_iter()
        .map(|thing| (thing, of(expected, thing), of(seen, thing)))
        .filter(|(_, expected, seen)| expected != seen);
    differing
        .filter(|(thing, expected, seen)| {
            let allowed = match thing.strip_prefix("event ") {
                Some(event) => allowed(case, event, times(expected), times(seen), &gone),
                None => *thing == "run times" && unheard(case, expected, seen),
            };
            !allowed
        })
        .map(|(thing, expected, seen)| format!("{thing}: {seen:?} and not {expected:?}"))
        .collect()
}

/// Objects that no longer exist at the end.
struct Gone {
    run: bool,
    workspace: bool,
}

/// Number of times that an Event was published.
fn times(count: &str) -> u32 {
    count.parse().unwrap_or_default()
}

/// The time of a cancellation whose answer was lost. docs/api.md: "Absent if the run ended before an answer to a
/// cancellation arrived".
fn unheard(case: &Case, expected: &str, seen: &str) -> bool {
    let lost = matches!(case.fault, Fault::LoseAnswer | Fault::Cut);
    let but_for_that = seen.replace(r#""cancelAccepted":false"#, r#""cancelAccepted":true"#);
    case.point == "service.cancel" && lost && but_for_that == expected
}

/// Events may differ in these ways and no other. The quotations are from docs/events.md.
fn allowed(case: &Case, event: &str, expected: u32, seen: u32, gone: &Gone) -> bool {
    let killed = case.fault.kills();
    let one_more = seen == expected + 1;
    match event {
        // "All others are lost then": with the process, and with the answer to that write.
        "Run/Recovered" => (killed || case.point == "kube.run.status") && seen < expected,
        // "Published when a kind of error first occurs": a lost call is one more; a lost write shows one
        // less.
        "Run/Retrying" => one_more && !killed || seen < expected,
        // "The Workspace can't be used": as long as its check has no answer; then it is Ready, again.
        "Workspace/NotReady" | "Workspace/Ready" => {
            let check = ["service.version", "service.workspace"].contains(&case.point.as_str());
            let unanswered = [Fault::LoseRequest, Fault::LoseAnswer, Fault::Cut];
            one_more && check && unanswered.contains(&case.fault)
        }
        // "The end of a Run that still has its finalizer": else it is lost with the process.
        "Run/Cancelled" | "Run/DeadlineExceeded" | "Run/Failed" | "Run/Succeeded" => {
            killed && seen < expected
        }
        // "For an object that no longer exists by then nothing is published": lost with the process, or with
        // the answer.
        "Run/Orphaned" => killed && gone.run && seen < expected,
        "Workspace/WorkspaceInUse" => {
            let lost = killed || case.point == "kube.workspace.status";
            lost && gone.workspace && seen < expected
        }
        _ => false,
    }
}

/// The end of a life as these things, each with its text.
fn end(things: &[(&str, &str)]) -> Outcome {
    let own = |(thing, seen): &(&str, &str)| ((*thing).to_owned(), (*seen).to_owned());
    things.iter().map(own).collect()
}

fn case(fault: Fault) -> Case {
    Case {
        scenario: super::scenario::Scenario::Deleted,
        point: "service.create".to_owned(),
        number: 1,
        fault,
    }
}

#[test]
fn an_extra_run_a_live_run_and_an_extra_event_are_differences() {
    let expected = end(&[
        ("service runs", "1"),
        ("service live", "0"),
        ("event Run/Submitted", "1"),
    ]);
    for &fault in Fault::value_variants() {
        assert!(differences(&case(fault), &expected, &expected).is_empty());
        for (thing, seen) in [
            ("service runs", "2"),
            ("service live", "1"),
            ("event Run/Submitted", "2"),
            ("event Run/Submitted", "0"),
        ] {
            let mut other = expected.clone();
            other.insert(thing.to_owned(), seen.to_owned());
            let told = differences(&case(fault), &expected, &other);
            assert_eq!(told.len(), 1, "{fault:?}, {thing}: {told:?}");
        }
    }
}

#[test]
fn only_a_kill_may_lose_the_last_event() {
    let there = |event| end(&[("object", "true"), (event, "1")]);
    let gone = |event| end(&[("object", "false"), (event, "1")]);
    let (cancelled, orphaned) = ("event Run/Cancelled", "event Run/Orphaned");
    for (fault, expected, event, allowed) in [
        (Fault::KillAfter, &gone(cancelled), cancelled, true),
        (Fault::KillAfter, &there(cancelled), cancelled, true),
        (Fault::KillAfter, &gone(orphaned), orphaned, true),
        (Fault::KillAfter, &there(orphaned), orphaned, false),
        (Fault::LoseAnswer, &gone(cancelled), cancelled, false),
    ] {
        let mut seen = expected.clone();
        seen.remove(event);
        let told = differences(&case(fault), expected, &seen);
        assert_eq!(told.is_empty(), allowed, "{fault:?}: {told:?}");
    }
}

#[test]
fn only_a_lost_answer_may_leave_a_cancellation_without_its_time() {
    let times = |accepted| end(&[("run times", &format!(r#"{{"cancelAccepted":{accepted}}}"#))]);
    for (point, fault, allowed) in [
        ("service.cancel", Fault::LoseAnswer, true),
        ("service.cancel", Fault::Cut, true),
        ("service.cancel", Fault::LoseRequest, false),
        ("service.get", Fault::LoseAnswer, false),
    ] {
        let case = Case {
            point: point.to_owned(),
            ..case(fault)
        };
        let told = differences(&case, &times(true), &times(false));
        assert_eq!(told.is_empty(), allowed, "{point}, {fault:?}: {told:?}");
        assert_eq!(differences(&case, &times(false), &times(true)).len(), 1);
    }
}
