//! RunSchedules in a small world: one schedule, its Runs, a wall clock and one process's memory. [`World::turns`]
//! decides, writes and acts until nothing is left, as the controller's reconcile does.

mod attempts;
mod bad_input;
mod world;

use std::collections::BTreeSet;

use rstest::rstest;
use run_operator::api::{
    ConditionType, EventReason, Phase, Reason, conditions::whole_seconds, names,
};
use serde_json::{Value, json};

use world::{World, time};

const HOUR: &str = "0 * * * *";
const TEN_MINUTES: &str = "*/10 * * * *";

/// Proves: P-schedule
#[test]
fn a_tick_is_one_run_with_its_name_and_key() {
    let mut world = World::new(&json!({}));
    assert_eq!(world.at("00:59:59").log(), "");
    assert_eq!(world.due, Some(time("01:00:00")));
    assert_eq!(world.at("01:00:00").at("01:30:00").log(), "created 0100");
    let run = world.named("0100");
    let key = run.spec.idempotency_key.as_deref();
    assert_eq!(key, Some("uid-of-nightly.202611300100"));
    let annotations = run.metadata.annotations.as_ref().unwrap();
    assert_eq!(
        annotations[names::SCHEDULED_ANNOTATION],
        "2026-11-30T01:00:00Z"
    );
    let status = world.status();
    assert_eq!(status.last_schedule_time.unwrap().0, time("01:00:00"));
    assert_eq!(status.next_schedule_time.unwrap().0, time("02:00:00"));
    assert_eq!((status.pending_tick, status.active.len()), (None, 1));
    assert_eq!(world.ready(), ("True".to_owned(), "Scheduled".to_owned()));
}

/// Proves: P-schedule
#[test]
fn the_end_of_a_run_is_shown() {
    let mut world = World::new(&json!({}));
    world.at("01:00:00").clock_shows("01:10:00");
    world.ends("0100", Phase::Succeeded, Reason::Succeeded);
    let status = world.status();
    assert_eq!(status.last_successful_time.unwrap().0, time("01:10:00"));
    assert!(status.active.is_empty());
}

/// After none, one, two or all of: the status with the tick, the Run, the status with the tick dealt with.
/// Proves: P-schedule
#[rstest]
fn a_crash_after_each_write_repeats_to_the_same_run(#[values(0, 1, 2, 3)] writes: usize) {
    let mut world = World::new(&json!({}));
    world.clock_shows("01:00:00");
    for _ in 0..writes {
        assert!(world.turn());
    }
    world.restart();
    assert_eq!(world.turns().log(), "created 0100");
    assert_eq!(world.names(), ["0100"]);
    assert_eq!(world.status().pending_tick, None);
}

/// In winter at 01:30 UTC, in summer at 00:30, and in the night whose clocks skip it at 01:00.
/// Proves: P-schedule, P-schedule-time
#[test]
fn a_year_of_nights_with_a_crash_at_each_makes_one_run_of_each() {
    let nights = json!({"schedules": ["30 2 * * *"], "timeZone": "Europe/Berlin"});
    let mut world = World::new(&nights);
    for night in 0..365 {
        world.wait();
        for _ in 0..night % 4 {
            world.turn();
        }
        world.restart();
        world.turns().end_all();
    }
    let log = world.log();
    let created: Vec<&str> = log
        .split(", ")
        .filter_map(|entry| entry.strip_prefix("created "))
        .collect();
    let distinct: BTreeSet<&&str> = created.iter().collect();
    assert_eq!((created.len(), distinct.len()), (365, 365), "{log}");
    let expected = ["0130", "nightly-202703280100", "nightly-202711290130"];
    assert_eq!([created[0], created[118], created[364]], expected);
    assert!(!log.contains("missed") && !log.contains("skipped"), "{log}");
}

/// The service knows the key, so that the object shows the same run.
/// Proves: P-schedule
#[test]
fn a_run_deleted_before_its_tick_is_noted_is_created_again_with_the_same_key() {
    let mut world = World::new(&json!({}));
    world.clock_shows("01:00:00");
    assert!(world.turn() && world.turn());
    let first = world.named("0100").spec.idempotency_key.clone();
    world.runs.clear();
    world.restart();
    assert_eq!(world.turns().log(), "created 0100, created 0100");
    assert_eq!(world.named("0100").spec.idempotency_key, first);
}

/// Proves: P-schedule
#[test]
fn a_run_deleted_later_is_not_created_again() {
    let mut world = World::new(&json!({}));
    world.at("01:00:00").runs.clear();
    world.restart();
    assert_eq!(world.at("01:04:00").at("01:59:59").log(), "created 0100");
}

/// The Run of 01:00 ends at 02:04, if it is not cancelled before, and each later one at 02:30.
/// Proves: P-schedule-policy
#[rstest]
#[case::forbid(json!({}), "created 0100, skipped 0200, created 0300")]
#[case::forbid_latest(json!({"catchUp": "Latest"}), "created 0100, skipped 0200, created 0300")]
#[case::forbid_waits(json!({"startingDeadlineSeconds": 300}),
    "created 0100, created 0200, created 0300")]
#[case::forbid_waits_in_vain(json!({"startingDeadlineSeconds": 60}),
    "created 0100, missed 0200, created 0300")]
#[case::forbid_latest_waits(json!({"catchUp": "Latest", "startingDeadlineSeconds": 300}),
    "created 0100, created 0200, created 0300")]
#[case::allow(json!({"concurrencyPolicy": "Allow"}), "created 0100, created 0200, created 0300")]
#[case::allow_soon(json!({"concurrencyPolicy": "Allow", "startingDeadlineSeconds": 60}),
    "created 0100, created 0200, created 0300")]
#[case::replace(json!({"concurrencyPolicy": "Replace"}),
    "created 0100, cancelled 0100, created 0200, created 0300")]
#[case::replace_latest(json!({"concurrencyPolicy": "Replace", "catchUp": "Latest"}),
    "created 0100, cancelled 0100, created 0200, created 0300")]
#[case::replace_too_late(json!({"concurrencyPolicy": "Replace", "startingDeadlineSeconds": 60}),
    "created 0100, cancelled 0100, missed 0200, created 0300")]
fn a_tick_while_a_run_is_active(#[case] spec: Value, #[case] log: &str) {
    let mut world = World::new(&spec);
    world.at("01:00:00").at("02:00:00").clock_shows("02:04:00");
    world.ends_or_is_cancelled("0100");
    world.clock_shows("02:30:00");
    world.end_all();
    assert_eq!(world.at("03:00:00").log(), log);
}

/// Proves: P-schedule-policy
#[test]
fn a_later_tick_supersedes_one_that_waits() {
    let mut world = World::new(&json!({"startingDeadlineSeconds": 7200}));
    world.at("01:00:00").at("02:00:00").at("03:00:00");
    assert_eq!(world.log(), "created 0100, missed 0200");
    world.clock_shows("03:10:00");
    world.end_all();
    assert_eq!(world.log(), "created 0100, missed 0200, created 0300");
}

/// Proves: P-schedule-policy
#[test]
fn a_replaced_run_is_cancelled_once_and_the_next_waits_for_its_end() {
    let mut world = World::new(&json!({"concurrencyPolicy": "Replace"}));
    world.at("01:00:00").at("02:00:00").at("02:01:00");
    world.restart();
    world.at("02:02:00");
    assert_eq!(world.log(), "created 0100, cancelled 0100");
    assert_eq!(world.named("0100").spec.cancel, Some(true));
}

/// The old Run is seen to be gone ten minutes after the tick, whose name is then another's until this time.
/// Proves: P-schedule-policy
#[rstest]
#[case::in_time("02:15:00", "created 0100, cancelled 0100, created 0200")]
#[case::too_late("02:15:01", "created 0100, cancelled 0100, missed 0200")]
fn a_replaced_run_that_vanishes_has_ended_when_that_is_seen(
    #[case] until: &str,
    #[case] log: &str,
) {
    let mut world = World::new(&json!({"concurrencyPolicy": "Replace"}));
    world.at("01:00:00").at("02:00:00").runs.clear();
    world.takes_the_name("0200");
    world.at("02:10:00").runs.clear();
    assert_eq!(world.at(until).at("02:20:00").log(), log);
}

/// Proves: P-schedule
#[test]
fn each_run_that_is_replaced_is_told() {
    let mut world = World::new(&json!({"concurrencyPolicy": "Replace"}));
    world.at("01:00:00").trigger("nightly-x7f2k");
    world.at("02:00:00").at("02:01:00");
    let told = world.events.iter();
    let told = told.filter(|event| event.reason == EventReason::RunReplaced);
    assert_eq!(told.count(), 2);
}

/// No process from 00:30, 00:05 with the schedule of ten minutes, until 01:40, 01:07 or 01:04.
/// Proves: P-schedule-policy, P-schedule-time
#[rstest]
#[case::skip(HOUR, json!({}), "01:40:00", "missed 0100, created 0200")]
#[case::latest(HOUR, json!({"catchUp": "Latest"}), "01:40:00", "created 0100, created 0200")]
#[case::skip_in_time(HOUR, json!({"startingDeadlineSeconds": 3600}), "01:40:00",
    "created 0100, created 0200")]
#[case::latest_too_late(HOUR, json!({"catchUp": "Latest", "startingDeadlineSeconds": 60}),
    "01:40:00", "missed 0100, created 0200")]
#[case::often_skip(TEN_MINUTES, json!({}), "01:07:00", "missed 0100, created 0110")]
#[case::often_skip_soon(TEN_MINUTES, json!({}), "01:04:00", "created 0100, created 0110")]
#[case::often_latest(TEN_MINUTES, json!({"catchUp": "Latest"}), "01:07:00",
    "created 0100, created 0110")]
#[case::often_skip_in_time(TEN_MINUTES, json!({"startingDeadlineSeconds": 600}), "01:07:00",
    "created 0100, created 0110")]
#[case::often_latest_too_late(TEN_MINUTES,
    json!({"catchUp": "Latest", "startingDeadlineSeconds": 60}), "01:07:00",
    "missed 0100, created 0110")]
fn an_outage(#[case] schedule: &str, #[case] spec: Value, #[case] back: &str, #[case] log: &str) {
    let mut spec = spec;
    spec["schedules"] = json!([schedule]);
    let often = schedule == TEN_MINUTES;
    let mut world = World::created_at(if often { "00:05:00" } else { "00:30:00" }, &spec);
    world.restart();
    world.at(back).end_all();
    assert_eq!(
        world.at(if often { "01:10:00" } else { "02:00:00" }).log(),
        log
    );
}

/// The last second in which a tick is in time, and the first in which it is not.
/// Proves: P-schedule-policy
#[rstest]
#[case::skip(json!({}), "01:05:00", "created 0100")]
#[case::skip_late(json!({}), "01:05:01", "missed 0100")]
#[case::own(json!({"startingDeadlineSeconds": 10}), "01:00:10", "created 0100")]
#[case::own_late(json!({"startingDeadlineSeconds": 10}), "01:00:11", "missed 0100")]
fn a_deadline_ends(#[case] spec: Value, #[case] back: &str, #[case] log: &str) {
    assert_eq!(World::new(&spec).at(back).log(), log);
}

/// Else the pause after a write that has failed would end at once.
/// Proves: P-schedule-policy
#[test]
fn what_is_decided_again_lies_ahead() {
    let mut world = World::new(&json!({}));
    world.clock_shows("01:05:01");
    assert!(world.turn(), "the tick is too late");
    assert_eq!(world.due, Some(time("02:00:00")));
    let mut world = attempts::retried(1, 60);
    world.fails("0100");
    world.clock_shows("01:11:00");
    assert!(world.turn(), "another attempt is begun");
    assert_eq!(world.due, Some(time("02:00:00")));
}

/// A Run is active all through an outage from 01:30 to 02:40, and ends at 02:50.
/// Proves: P-schedule-policy
#[rstest]
#[case::forbid(json!({}), "missed 0200")]
#[case::forbid_latest(json!({"catchUp": "Latest"}), "skipped 0200")]
#[case::forbid_latest_waits(json!({"catchUp": "Latest", "startingDeadlineSeconds": 7200}),
    "created 0200")]
#[case::allow(json!({"concurrencyPolicy": "Allow"}), "missed 0200")]
#[case::allow_latest(json!({"concurrencyPolicy": "Allow", "catchUp": "Latest"}), "created 0200")]
#[case::replace(json!({"concurrencyPolicy": "Replace"}), "missed 0200")]
#[case::replace_latest(json!({"concurrencyPolicy": "Replace", "catchUp": "Latest"}),
    "cancelled 0100, created 0200")]
fn an_outage_while_a_run_is_active(#[case] spec: Value, #[case] then: &str) {
    let mut world = World::new(&spec);
    world.at("01:00:00").at("01:30:00").restart();
    world.at("02:40:00").clock_shows("02:50:00");
    world.ends_or_is_cancelled("0100");
    assert_eq!(world.log(), format!("created 0100, {then}"));
}

/// Five Runs ended so, and that of 06:00 is active.
/// Proves: P-schedule-policy
#[rstest]
fn the_newest_that_ended_stay(
    #[values(0, 1, 3)] limit: usize,
    #[values(Phase::Succeeded, Phase::Failed, Phase::Cancelled)] phase: Phase,
) {
    let limits = json!({"successfulRunsHistoryLimit": limit, "failedRunsHistoryLimit": limit});
    let mut world = World::new(&limits);
    for hour in 1..=5 {
        world.at(&format!("0{hour}:00:00"));
        world.clock_shows(&format!("0{hour}:10:00"));
        world.ends(&format!("0{hour}00"), phase, phase.reason());
    }
    let stay = ["0300", "0400", "0500", "0600"];
    assert_eq!(world.at("06:00:00").names(), stay[3 - limit..]);
}

/// Proves: P-schedule-policy
#[test]
fn successes_and_failures_have_histories_of_their_own() {
    let limits = json!({"successfulRunsHistoryLimit": 1, "failedRunsHistoryLimit": 1});
    let mut world = World::new(&limits);
    world
        .at("01:00:00")
        .ends("0100", Phase::Succeeded, Reason::Succeeded);
    for tick in ["02", "03"] {
        world
            .at(&format!("{tick}:00:00"))
            .fails(&format!("{tick}00"));
    }
    assert_eq!(world.names(), ["0100", "0300"]);
}

/// Proves: P-schedule-time
#[test]
fn resuming_replays_nothing() {
    let mut world = World::new(&json!({"catchUp": "Latest", "startingDeadlineSeconds": 7200}));
    world.at("01:00:00").at("02:00:00");
    assert!(world.status().pending_tick.is_some());
    world.clock_shows("02:30:00");
    world.edit(&json!({"suspend": true}));
    let status = world.status();
    assert_eq!(
        (status.pending_tick, status.next_schedule_time),
        (None, None)
    );
    let suspended = world.condition(ConditionType::Suspended).unwrap();
    assert_eq!(suspended.reason, "Suspended");
    world.at("03:00:00").clock_shows("03:10:00");
    world.end_all();
    world.edit(&json!({"suspend": null}));
    assert!(world.condition(ConditionType::Suspended).is_none());
    assert_eq!(world.at("03:59:59").log(), "created 0100, skipped 0200");
    assert_eq!(
        world.at("04:00:00").log(),
        "created 0100, skipped 0200, created 0400"
    );
}

/// No process sees the edits until 02:00:30.
/// Proves: P-schedule-time
#[rstest]
#[case::schedule(json!({"schedules": [TEN_MINUTES]}), "created 0100", "created 0210")]
#[case::zone(json!({"timeZone": "Asia/Kolkata"}), "created 0100", "created 0230")]
#[case::another_field(json!({"failedRunsHistoryLimit": 7}), "created 0100, created 0200",
    "created 0300")]
fn an_edited_schedule_counts_from_the_change_on(
    #[case] edit: Value,
    #[case] at_once: &str,
    #[case] then: &str,
) {
    let mut world = World::new(&json!({"catchUp": "Latest"}));
    world.at("01:00:00").end_all();
    world.clock_shows("02:00:30");
    world.edit(&edit);
    assert_eq!(world.log(), at_once);
    world.end_all();
    for at in ["02:09:59", "02:10:00", "02:10:01"] {
        world.at(at);
    }
    world.end_all();
    if !then.contains("0210") {
        world.at("02:30:00").end_all();
        world.at("03:00:00");
    }
    let log = world.log();
    let rest = log.strip_prefix(at_once).unwrap();
    assert!(rest.starts_with(&format!(", {then}")), "{log}");
}

/// The minute is in the new schedule as well.
/// Proves: P-schedule-time
#[rstest]
#[case::its_run_was_created("01:00:00", "created 0100")]
#[case::nobody_has_seen_it("00:59:59", "")]
fn an_edit_within_the_minute_of_a_tick_repeats_and_replays_nothing(
    #[case] seen: &str,
    #[case] at_once: &str,
) {
    let mut world = World::new(&json!({"catchUp": "Latest", "concurrencyPolicy": "Allow"}));
    world.at(seen).clock_shows("01:00:00");
    for schedule in ["0,30 * * * *", HOUR, "0,30 * * * *"] {
        world.edit(&json!({"schedules": [schedule]}));
    }
    assert_eq!(world.at("01:00:59").log(), at_once);
    world.at("01:30:00");
    assert_eq!(world.names().last().unwrap(), "0130");
    assert_eq!(world.log().matches("created").count(), world.names().len());
}

/// Proves: P-schedule-time
#[test]
fn a_clock_that_steps_back_repeats_no_tick() {
    let mut world = World::new(&json!({"catchUp": "Latest"}));
    world.at("03:00:00").end_all();
    for at in ["01:00:00", "02:00:00", "03:00:00", "03:59:59"] {
        world.at(at).restart();
        world.turns();
        let next = world.status().next_schedule_time;
        assert_eq!(next.unwrap().0, time("04:00:00"));
    }
    assert_eq!(world.log(), "created 0300");
    assert_eq!(world.at("04:00:00").log(), "created 0300, created 0400");
}

/// Proves: P-schedule
#[test]
fn a_lost_status_repeats_no_tick_that_has_its_run() {
    let mut world = World::new(&json!({"catchUp": "Latest"}));
    world.at("01:00:00").schedule.status = None;
    world.restart();
    assert_eq!(world.at("01:01:00").log(), "created 0100");
    assert_eq!(world.status().active.len(), 1);
    assert_eq!(world.at("02:00:00").log(), "created 0100, skipped 0200");
}

/// Its keys are those of another uid, so that the tick would be a second run.
/// Proves: P-schedule
#[test]
fn a_status_from_a_backup_begins_no_tick_before_the_objects_creation() {
    let mut world = World::new(&json!({"catchUp": "Latest"}));
    world.clock_shows("01:00:00");
    assert!(world.turn(), "the tick is begun");
    world.schedule.metadata.creation_timestamp = Some(whole_seconds(time("02:30:00")));
    world.restart();
    assert_eq!(world.at("02:30:30").log(), "skipped 0100");
    assert_eq!(
        world.events.last().unwrap().message,
        "Tick 2026-11-30T01:00:00Z: The schedule's ticks count only from 2026-11-30T02:30:00Z on (nightly-202611300100)."
    );
    assert_eq!(world.at("03:00:00").log(), "skipped 0100, created 0300");
}

/// Proves: P-schedule-time
#[test]
fn a_minute_that_two_schedules_name_is_one_tick() {
    let schedules = json!({"schedules": [HOUR, "0,30 * * * *"], "concurrencyPolicy": "Allow"});
    let mut world = World::new(&schedules);
    world.at("01:00:00").at("01:00:30").at("01:30:00");
    assert_eq!(world.log(), "created 0100, created 0130");
}

/// Proves: P-schedule-policy
#[rstest]
#[case::it_exists(false, "skipped 0200")]
#[case::it_is_gone(true, "created 0200")]
fn a_run_that_only_the_status_lists_counts_until_it_is_read(
    #[case] deleted: bool,
    #[case] then: &str,
) {
    let mut world = World::new(&json!({}));
    world.at("01:00:00").restart();
    world.hide("0100");
    if deleted {
        world.runs.clear();
    }
    assert_eq!(world.at("02:00:00").log(), format!("created 0100, {then}"));
}

/// The tick that the triggered Run has skipped is looked for as well.
/// Proves: P-schedule-policy
#[test]
fn what_was_read_is_not_read_again_before_the_status_changes() {
    let mut world = World::new(&json!({"catchUp": "Latest"}));
    world.at("01:00:00").runs.clear();
    world.trigger("nightly-x7f2k");
    world.restart();
    assert_eq!(world.at("02:00:30").log(), "created 0100, skipped 0200");
    let active = world.status().active;
    let active: Vec<_> = active.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(active, ["nightly-x7f2k"]);
}

/// Its Runs are the garbage collector's to delete.
#[test]
fn a_schedule_that_is_being_deleted_does_nothing() {
    let mut world = World::new(&json!({}));
    let at = world.schedule.metadata.creation_timestamp.clone();
    world.schedule.metadata.deletion_timestamp = at;
    let before = world.status();
    assert_eq!(world.at("01:00:00").log(), "");
    assert_eq!(world.status(), before);
}

/// Proves: P-schedule
#[test]
fn what_happened_is_told_in_events() {
    let mut world = World::new(&json!({"concurrencyPolicy": "Replace"}));
    world
        .at("01:00:00")
        .at("02:00:00")
        .at("03:30:00")
        .clock_shows("03:40:00");
    world.end_all();
    world.edit(&json!({"concurrencyPolicy": "Forbid"}));
    world.at("04:00:00").at("05:00:00");
    let told: Vec<_> = world
        .events
        .iter()
        .map(|event| event.message.as_str())
        .collect();
    assert_eq!(
        told,
        [
            "Tick 2026-11-30T01:00:00Z: Created its Run (nightly-202611300100).",
            "Tick 2026-11-30T02:00:00Z: Cancels nightly-202611300100 (nightly-202611300200).",
            "Tick 2026-11-30T02:00:00Z: The next tick came before its Run was created (nightly-202611300200).",
            "Tick 2026-11-30T03:00:00Z: Its Run could not be created in time (nightly-202611300300).",
            "Tick 2026-11-30T04:00:00Z: Created its Run (nightly-202611300400).",
            "Tick 2026-11-30T05:00:00Z: A Run of an earlier tick has not ended (nightly-202611300500).",
        ]
    );
}
