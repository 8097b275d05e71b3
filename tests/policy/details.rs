//! What the service says of a run beside its state: when it is written, and that nothing else depends on it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rstest::rstest;
use run_operator::{
    api::{EventReason, contract::RunDetails},
    decide::{Stream, failure::RunView},
};

use crate::{
    histories::{self, apply, turns},
    support::{Case, at, view},
};

const CONSOLE: &str = "https://console.example.com/runs/1";

fn details(percent: i32) -> RunDetails {
    RunDetails {
        results: BTreeMap::from([("loss".to_owned(), format!("0.{percent}"))]),
        console_url: Some(CONSOLE.into()),
        percent: Some(percent),
        message: Some(format!("epoch {percent}")),
        failure: None,
    }
}

fn with(state: &str, details: RunDetails) -> RunView {
    RunView {
        details: Some(Box::new(details)),
        ..view(state)
    }
}

/// A run whose state was just written.
fn running() -> Case {
    let case = Case::new().submitted("running");
    let mut case = case.got(Ok(with("running", details(1)))).settle();
    case.stream = Stream::Open;
    case
}

fn percent(case: &Case) -> Option<i32> {
    let status = case.run.status.as_ref()?;
    status.progress.as_ref()?.percent
}

/// Proves: P-details
#[test]
fn a_status_shows_what_the_latest_answer_says() {
    let created = Case::new().mine().posted(Ok(with("queued", details(0))));
    let status = created.settled();
    assert_eq!(status.console_url.as_deref(), Some(CONSOLE));
    let case = created.settle().at(40);
    let mut told = details(50);
    told.failure = Some("out of memory".into());
    told.message = None;
    let status = case.got(Ok(with("running", told))).settled();
    assert_eq!(status.results["loss"], "0.50");
    assert_eq!(status.failure.as_deref(), Some("out of memory"));
    let progress = status.progress.unwrap();
    assert_eq!((progress.percent, progress.message), (Some(50), None));
    assert_eq!(progress.last_update_time.map(|t| t.0), Some(at(40)));
    // What an answer no longer says is no longer shown.
    let silent = running().got(Ok(view("succeeded"))).settled();
    assert_eq!((silent.progress, silent.console_url), (None, None));
    assert!(silent.results.is_empty());
}

/// Proves: P-details
#[test]
fn a_status_keeps_them_until_a_new_process_has_read_the_run() {
    let before = running().run.status.unwrap();
    let after = running().restarted().settled();
    assert_eq!(after.progress, before.progress);
    assert_eq!(after.results, before.results);
}

/// Proves: B-writes, P-details
#[test]
fn they_alone_are_written_30_seconds_apart_and_the_latest_is_never_lost() {
    let mut case = running();
    let mut writes = Vec::new();
    for second in 1..=100 {
        case = case.at(second);
        // One value each second, until the run falls silent.
        if second <= 70 {
            case = case.got(Ok(with("running", details(second.try_into().unwrap()))));
        }
        let before = case.run.status.clone();
        let due = case.decide().requeue_at.expect("a time");
        case = case.settle();
        if case.run.status == before {
            assert!(second > 90 || due <= at(90), "{second}: {due}");
        } else {
            writes.push((second, percent(&case)));
        }
    }
    assert_eq!(writes, [(30, Some(30)), (60, Some(60)), (90, Some(70))]);
}

/// Proves: B-writes, P-details
#[test]
fn a_change_of_state_and_the_end_write_them_at_once() {
    let read = |state: &str| {
        let case = running().at(2).got(Ok(with(state, details(2))));
        percent(&case.settle())
    };
    assert_eq!(read("running"), Some(1));
    assert_eq!(read("odd"), Some(2));
    assert_eq!(read("succeeded"), Some(2));
}

/// Proves: P-details
#[test]
fn a_restart_keeps_the_distance_of_30_seconds() {
    let case = running().at(10).restarted();
    let mut case = case.got(Ok(with("running", details(9))));
    case.stream = Stream::Open;
    assert_eq!(percent(&case.clone().settle()), Some(1));
    assert_eq!(percent(&case.clone().at(29).settle()), Some(1));
    assert_eq!(percent(&case.at(30).settle()), Some(9));
}

/// Proves: P-details, P-events
#[rstest]
#[case::elsewhere("https://evil.example/runs/1")]
#[case::with_a_password("https://me:word@console.example.com/")]
#[case::too_long(&format!("https://console.example.com/{}", "x".repeat(2048)))]
fn an_address_elsewhere_is_left_out_and_told_once(#[case] address: &str) {
    let told = |percent| RunDetails {
        console_url: Some(address.into()),
        ..details(percent)
    };
    let mut case = running().got(Ok(with("running", told(1)))).at(60).settle();
    for second in [100, 200, 300] {
        let percent = i32::try_from(second / 10).unwrap();
        case = case
            .at(second)
            .got(Ok(with("running", told(percent))))
            .settle();
        let drafts = case.decide().events;
        let mut reasons = drafts.iter().map(|draft| draft.reason);
        let again = reasons.any(|reason| reason == EventReason::ConsoleURLRefused);
        assert!(!again, "nothing is written");
    }
    case = case
        .restarted()
        .at(400)
        .got(Ok(with("running", told(40))))
        .settle();
    assert_eq!(case.run.status.as_ref().unwrap().console_url, None);
    assert_eq!(percent(&case), Some(40));
    let of_it = case
        .events
        .iter()
        .filter(|e| e.reason == EventReason::ConsoleURLRefused);
    let events: Vec<_> = of_it.collect();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].message.contains("--console-origin"));
}

/// Proves: X-caps, P-details
#[test]
fn results_that_have_no_room_together_are_left_out() {
    let results = (0..16).map(|n| (format!("result-{n:02}"), "é".repeat(512)));
    let many = RunDetails {
        results: results.collect(),
        ..RunDetails::default()
    };
    let status = running().at(60).got(Ok(with("running", many))).settled();
    let names: Vec<&String> = status.results.keys().collect();
    assert_eq!(names, ["result-00", "result-01", "result-02"]);
    assert!(status.results.values().all(|value| value.len() == 1024));
}

proptest! {
    #![proptest_config(histories::config(500))]

    /// Whatever has happened before, an answer with them leads to the same calls, writes of the metadata and conditions.
    /// Proves: P-details
    #[test]
    fn no_decision_depends_on_them(turns in turns(), percent in 0..100, elsewhere in any::<bool>()) {
        let mut case = Case::new();
        for turn in &turns {
            case = apply(case, turn);
            let mut told = case.clone();
            let Some(read) = &mut told.tracked.memory.reading else {
                continue;
            };
            let mut details = details(percent);
            if elsewhere {
                details.console_url = Some("https://evil.example".into());
            }
            read.details = Some(Box::new(details));
            let (with, without) = (told.decide(), case.decide());
            prop_assert_eq!(&with.effect, &without.effect);
            prop_assert_eq!(with.follow, without.follow);
            prop_assert_eq!(with.wants_slot, without.wants_slot);
            let (with, without) = (with.status, without.status);
            if let (Some(with), Some(without)) = (with, without) {
                prop_assert_eq!(with.phase, without.phase);
                prop_assert_eq!(with.conditions, without.conditions);
            }
        }
    }
}
