//! Tests that the verdict finds planted violations.

use std::collections::{HashMap, HashSet};

use clap::ValueEnum;
use fastrand::Rng;
use rstest::rstest;
use run_operator::api::{Run, names};
use serde_json::{Value, json};

use super::environment::Born;
use super::fault_schedule::Weather;
use super::finalizer_race::Removals;
use super::verdict::{Scene, doubled, findings, most_active};
use super::workload::{Kind, Life, lives};

/// One life of this kind, its one object, and what is there of it.
fn found(kind: Kind, object: Option<Value>, runs: &[Value]) -> Vec<String> {
    found_but([false, false], kind, object, runs)
}

/// The same of an object that the API server has removed in spite of its finalizer, and whose create has lost an answer.
fn found_but(
    [overtaken, forgotten]: [bool; 2],
    kind: Kind,
    object: Option<Value>,
    runs: &[Value],
) -> Vec<String> {
    let lives: Vec<Life> = lives(Kind::value_variants().len(), 1000, &mut Rng::with_seed(1));
    let life = lives.iter().position(|life| life.kind == kind).unwrap();
    let born = Born {
        uid: "u".to_owned(),
        life,
        nth: 0,
    };
    let object: Option<Run> = object.map(|object| serde_json::from_value(object).unwrap());
    let object = object.map(|run| ("u".to_owned(), run));
    let scene = Scene {
        objects: object.into_iter().collect(),
        runs: runs.to_vec(),
        posts: HashMap::new(),
        overtaken: overtaken.then(|| "u".to_owned()).into_iter().collect(),
        forgotten: forgotten.then(|| "u".to_owned()).into_iter().collect(),
        held_from_birth: false,
    };
    let mut found = findings("team", &lives, &[born], &scene);
    found.extend(doubled(&scene));
    found.into_iter().map(|finding| finding.what).collect()
}

fn run(id: &str, key: &str, state: &str) -> Value {
    json!({"runId": id, "idempotencyKey": key, "state": state})
}

fn object(phase: &str, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
        "metadata": {"name": "a", "uid": "u", "generation": 1, "finalizers": finalizers},
        "spec": {"workload": {"image": "i"}},
        "status": {"observedGeneration": 1, "phase": phase, "runID": "r"},
    })
}

#[test]
fn what_is_as_it_must_be_is_no_finding() {
    let succeeded = Some(object("Succeeded", &[]));
    for (kind, object, runs) in [
        (Kind::Succeeds, succeeded, vec![run("r", "u", "succeeded")]),
        (Kind::DeletedActive, None, vec![run("r", "u", "cancelled")]),
        (Kind::DeletedActive, None, vec![]),
        (Kind::Orphaned, None, vec![run("r", "u", "running")]),
    ] {
        assert_eq!(found(kind, object, &runs), [""; 0], "{kind:?}");
    }
}

/// Each object's run is made a second after the one before, and ends in the middle of the fourth.
#[test]
fn runs_that_are_active_at_the_same_time_are_counted_but_for_those_without_a_slot() {
    let kinds = Kind::value_variants().len();
    let lives = lives(kinds, 1000, &mut Rng::with_seed(1));
    let most = |all: &[Kind], overtaken: &str| {
        let (mut born, mut runs) = (Vec::new(), Vec::new());
        for (nth, kind) in all.iter().enumerate() {
            let life = lives.iter().position(|life| life.kind == *kind).unwrap();
            let uid = format!("u-{nth}");
            let at = |second: usize, part| format!("2026-01-01T00:00:{second:02}.{part}Z");
            let mut made = run("r", &uid, "succeeded");
            made["createdAt"] = json!(at(nth, 0));
            let (queued, ended) = (at(nth, 0), at(nth + 3, 5));
            made["entered"] = json!([
                {"state": "queued", "at": queued}, {"state": "succeeded", "at": ended},
            ]);
            runs.push(made);
            born.push(Born { uid, life, nth: 0 });
        }
        let scene = Scene {
            objects: HashMap::new(),
            runs,
            posts: HashMap::new(),
            overtaken: HashSet::from([overtaken.to_owned()]),
            forgotten: HashSet::new(),
            held_from_birth: false,
        };
        most_active("team", &lives, &born, &scene)
    };
    let all = [Kind::Succeeds; 6];
    assert_eq!(most(&all, ""), 4);
    assert_eq!(most(&all, "u-3"), 3);
    let orphaned = [Kind::Succeeds, Kind::Orphaned, Kind::Succeeds];
    assert_eq!(most(&orphaned, ""), 2);
}

#[test]
fn a_run_left_by_the_api_server_is_excused_but_a_second_is_not() {
    let found = |what, runs: &[Value]| found_but(what, Kind::DeletedActive, None, runs);
    let left = [run("r", "u", "running")];
    assert_eq!(found([true, true], &left), [""; 0]);
    let two = [run("r", "u", "running"), run("s", "u", "cancelled")];
    assert!(!found([true, true], &two).is_empty());
    // The process that knew of the run was there to cancel it.
    assert!(!found([true, false], &left).is_empty());
    assert!(!found([false, true], &left).is_empty());
}

/// A line of the API server's audit log about a Run.
fn audited(verb: &str, code: u16, request: &Value, response: &Value) -> String {
    let object = json!({"resource": "runs", "namespace": "team", "name": "a"});
    json!({
        "verb": verb, "objectRef": object, "responseStatus": {"code": code},
        "requestObject": request, "responseObject": response,
    })
    .to_string()
}

fn written(code: u16, finalizers: &[&str]) -> String {
    let patch = json!([
        {"op": "replace", "path": "/metadata/uid", "value": "u"},
        {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
    ]);
    audited("patch", code, &patch, &Value::Null)
}

fn deleted(answer: &Value) -> String {
    audited("delete", 200, &Value::Null, answer)
}

#[rstest]
#[case::overtaken(&[written(200, &[names::FINALIZER]), deleted(&removed())], true)]
#[case::overtaken_and_answered_first(&[deleted(&removed()), written(200, &[names::FINALIZER])], true)]
#[case::deleted_after_its_release(&[written(200, &[names::FINALIZER]), written(200, &[]), deleted(&removed())], false)]
#[case::deleted_before_it_was_submitted(&[deleted(&removed())], false)]
#[case::deleted_before_the_finalizer_was_taken(&[written(409, &[names::FINALIZER]), deleted(&removed())], false)]
#[case::waits_for_its_finalizer(&[written(200, &[names::FINALIZER]), deleted(&json!({"kind": "Run"}))], false)]
fn the_audit_log_shows_objects_removed_despite_a_finalizer(
    #[case] lines: &[String],
    #[case] yes: bool,
) {
    let overtaken = |namespace: &str| {
        let mut removals = Removals::default();
        for line in lines {
            removals.learn(line, namespace);
        }
        removals.overtaken()
    };
    let uids = Vec::from_iter(overtaken("team"));
    assert_eq!(uids, if yes { vec!["u"] } else { vec![] });
    assert_eq!(overtaken("other"), HashSet::new());
}

fn removed() -> Value {
    json!({"kind": "Status", "status": "Success", "details": {"uid": "u"}})
}

#[rstest]
#[case::a_second_run(Kind::Succeeds, Some(object("Succeeded", &[])), &[run("r", "u", "succeeded"), run("s", "u", "succeeded")], "2 runs")]
#[case::a_live_run_of_a_deleted_object(Kind::DeletedActive, None, &[run("r", "u", "running")], "is \"running\"")]
#[case::a_run_that_no_object_knows(Kind::SuspendedDeleted, None, &[run("r", "v", "running")], "no object knows")]
#[case::a_run_of_a_copy(Kind::CopyDeleted, None, &[run("r", "u", "cancelled")], "1 runs")]
#[case::an_object_that_is_stuck(Kind::DeletedActive, Some(object("Cancelling", &[names::FINALIZER])), &[], "still there")]
#[case::an_object_that_is_lost(Kind::Succeeds, None, &[run("r", "u", "succeeded")], "is gone")]
#[case::a_lost_run(Kind::Succeeds, Some(object("Succeeded", &[])), &[], "0 runs")]
#[case::another_end(Kind::Succeeds, Some(object("Failed", &[])), &[run("r", "u", "succeeded")], "is Some(Failed)")]
#[case::another_run(Kind::Succeeds, Some(object("Succeeded", &[])), &[run("s", "u", "succeeded")], "shows the run")]
#[case::another_state(Kind::Succeeds, Some(object("Succeeded", &[])), &[run("r", "u", "failed")], "and its run is")]
#[case::a_finalizer_that_stays(Kind::Succeeds, Some(object("Succeeded", &[names::FINALIZER])), &[run("r", "u", "succeeded")], "finalizer")]
#[case::another_reason(Kind::Deadline, Some(object("Failed", &[])), &[run("r", "u", "cancelled")], "DeadlineExceeded")]
fn what_is_wrong_is_found(
    #[case] kind: Kind,
    #[case] object: Option<Value>,
    #[case] runs: &[Value],
    #[case] said: &str,
) {
    let found = found(kind, object, runs);
    assert!(found.iter().any(|what| what.contains(said)), "{found:?}");
}

#[test]
fn a_seed_gives_the_same_lives_and_the_same_weather_again() {
    let all = || {
        let mut random = Rng::with_seed(7);
        let lives = lives(60, 8000, &mut random);
        format!("{lives:?} {:?}", Weather::of(12_000, 1, &mut random))
    };
    assert_eq!(all(), all());
}
