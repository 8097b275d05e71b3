//! Objects that the previous release and this version have written on a real control plane, each read by a new process
//! of today's code. The suite `install` has the recorder (`formats.rs`).

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use run_operator::{
    api::{ClusterWorkspace, Intent, Reason, Run, Workspace},
    decide::{
        Effect, Follow, Memory, Session, WorkspaceView, request::body, tracked_run::TrackedRun,
    },
};
use serde_json::{Map, Value};
use test_support::formats::{Form, forms};

use crate::support::{Case, name};

static RECORDS: LazyLock<[(&str, Value); 2]> = LazyLock::new(|| {
    [
        "tests/previous-release/objects.json",
        "tests/formats/objects.json",
    ]
    .map(|file| (file, read(file).parse().expect("JSON")))
});

fn read(file: &str) -> String {
    let path = test_support::root().join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Whether the previous release has a reason.
pub(crate) fn known_to_previous(reason: Reason) -> bool {
    static REASONS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let text = read("tests/previous-release/release.yaml");
        let reasons = text.lines().filter_map(|line| line.strip_prefix("  - "));
        reasons.map(str::to_owned).collect()
    });
    REASONS.contains(reason.as_str())
}

fn objects(record: &Value) -> &Map<String, Value> {
    record.as_object().expect("an object for each name")
}

/// The recorded Runs of both versions: file and name, and the Run as a new process observes it, its Workspace Ready
/// and the last write ten seconds ago.
fn runs() -> Vec<(String, String, Case)> {
    let mut runs = Vec::new();
    for (file, record) in RECORDS.iter() {
        for (name, object) in objects(record) {
            let Some(name) = name.strip_prefix("Run/") else {
                continue;
            };
            let run: Run = serde_json::from_value(object.clone())
                .unwrap_or_else(|error| panic!("{file}: {name}: {error}"));
            runs.push((format!("{file}: {name}"), name.to_owned(), case(run)));
        }
    }
    assert!(runs.len() >= 34, "{} Runs", runs.len());
    runs
}

fn case(run: Run) -> Case {
    let mut case = Case::new();
    case.now = written(&run) + SignedDuration::from_secs(10);
    let status = run.status.clone().unwrap_or_default();
    let pinned = intent(&run)
        .map(|intent| intent.workspace)
        .or(status.workspace);
    case.view = pinned.map_or(WorkspaceView::Missing, |resolved| {
        WorkspaceView::Ready(Session {
            number: 1,
            resolved,
            submissions_blocked: None,
        })
    });
    case.tracked = TrackedRun::new(Memory::of(&run));
    case.run = run;
    case
}

fn intent(run: &Run) -> Option<Intent> {
    run.intent_record().own()
}

/// Time of the last change of the conditions.
fn written(run: &Run) -> Timestamp {
    let conditions = run.status.iter().flat_map(|status| &status.conditions);
    let times = conditions.map(|condition| condition.last_transition_time.0);
    times.max().expect("a condition")
}

/// Nothing that is stored is lost by reading and writing it.
/// Proves: I-formats
#[test]
fn recorded_objects_are_read_whole() {
    for (file, record) in RECORDS.iter() {
        for (name, object) in objects(record) {
            let kind = name.split('/').next().expect("a kind");
            let again = match kind {
                "Run" => again::<Run>(object),
                "Workspace" => again::<Workspace>(object),
                "ClusterWorkspace" => again::<ClusterWorkspace>(object),
                other => panic!("{other}"),
            };
            assert_eq!(&again, object, "{file}: {name}");
        }
    }
}

fn again<T: serde::de::DeserializeOwned + serde::Serialize>(object: &Value) -> Value {
    let read: T = serde_json::from_value(object.clone()).expect("an object");
    serde_json::to_value(read).expect("JSON")
}

/// The next step of a new process, by the state in which the Run was recorded.
/// Proves: I-formats
#[test]
fn a_recorded_run_is_continued_and_none_is_submitted_again() {
    for (which, state, case) in runs() {
        let done = name(case.decide().effect.as_ref());
        let wanted = match state.as_str() {
            // The intent is taken over before its POST is repeated.
            "in-doubt" => "intent",
            // The service has accepted the cancellations; their end is awaited.
            "active" | "keyed" | "shared" | "numbers" | "denied" | "cancelling" | "deleting" => {
                "refresh"
            }
            "suspended" | "waiting" | "not-ready" | "forbidden" | "conflict" | "refused"
            | "succeeded" | "failed" | "cancelled" => "nothing",
            other => panic!("{other}"),
        };
        assert_eq!(done, wanted, "{which}");
    }
}

/// Proves: I-formats
#[test]
fn a_recorded_cancellation_without_an_answer_is_sent_again() {
    let cancelled = ["cancelling", "deleting"];
    let runs = runs().into_iter();
    for (which, _, mut case) in runs.filter(|(_, state, _)| cancelled.contains(&state.as_str())) {
        let status = case.run.status.as_mut().expect("a status");
        assert!(status.cancel_accepted_time.take().is_some(), "{which}");
        let effect = case.decide().effect;
        assert_eq!(name(effect.as_ref()), "cancel", "{which}");
    }
}

/// Proves: I-formats
#[test]
fn nothing_is_written_to_a_recorded_run_that_has_ended() {
    let mut ended = 0;
    for (which, _, case) in runs().into_iter().filter(|(.., case)| case.run.ended()) {
        let decision = case.decide();
        assert_eq!(decision.status, None, "{which}");
        assert_eq!(decision.follow, Follow::Close, "{which}");
        ended += 1;
    }
    assert_eq!(ended, 7);
}

/// Key and body of the POST are those that were announced, also where numbers and characters can be written in
/// several ways.
/// Proves: I-formats
#[test]
fn a_recorded_intent_gives_the_same_key_and_the_same_bytes() {
    let mut intents = 0;
    for (which, _, case) in runs() {
        let Some(written) = intent(&case.run) else {
            continue;
        };
        let spec = &case.run.spec;
        let bytes = body::body(spec, written.serializer).expect("a known serializer");
        assert_eq!(body::sha256(&bytes), written.sha256, "{which}");
        let key = body::idempotency_key(spec, "work", &written.uid);
        assert_eq!(key, written.key, "{which}");
        intents += 1;
    }
    assert!(intents >= 24, "{intents}");
}

/// Proves: I-formats
#[test]
fn a_recorded_run_in_doubt_repeats_the_post_of_its_intent() {
    for (which, _, mut case) in runs()
        .into_iter()
        .filter(|(_, state, _)| state == "in-doubt")
    {
        let before = intent(&case.run).expect("an intent");
        let decision = case.begin();
        let effect = decision.effect.expect("an effect");
        case.write(&effect, true);
        case.end();
        let after = intent(&case.run).expect("an intent");
        assert_eq!(after.owner, case.settings.process, "{which}");
        assert_eq!(after.epoch, before.epoch + 1, "{which}");
        let Some(Effect::Submit { key, body, .. }) = case.clone().settle().decide().effect else {
            panic!("{which}: {:#?}", case.decide());
        };
        assert_eq!(
            (key, body::sha256(&body)),
            (before.key, before.sha256),
            "{which}"
        );
    }
}

/// What the previous release would not understand after a rollback: a field that it doesn't know is lost when it writes
/// the object, and one of another type leaves the whole object unreadable.
/// Proves: I-formats
#[test]
fn both_versions_write_objects_of_the_same_form() {
    let [previous, today] = [0, 1].map(|nth| forms(&RECORDS[nth].1));
    assert_eq!(
        previous.keys().collect::<Vec<_>>(),
        today.keys().collect::<Vec<_>>()
    );
    let mut differences = Vec::new();
    for (kind, form) in &previous {
        // 0.1.0 leaves such a Run stalled, and this version ends it.
        if kind != "Run/refused" {
            differences.extend(different(kind, form, &today[kind]));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn different(kind: &str, before: &Form, after: &Form) -> Vec<String> {
    let paths: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let pairs = paths
        .into_iter()
        .map(|path| (path, before.get(path), after.get(path)));
    let different = pairs.filter(|(_, before, after)| before != after);
    different
        .map(|(path, before, after)| format!("{kind}: {path}: {before:?}, today {after:?}"))
        .collect()
}
