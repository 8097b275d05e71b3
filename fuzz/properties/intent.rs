//! An annotation that anybody may have edited, behind the uid that it is read for: whatever it says, no POST goes
//! out but the one that it records, and nothing is let go of without proof.

use std::time::Duration;

use jiff::Timestamp;

use super::said::CONTRACT;
use crate::api::WorkspaceKind;
use crate::api::intent::IntentRecord;
use crate::api::names::{FINALIZER, INTENT_ANNOTATION};
use crate::api::status::ResolvedWorkspace;
use crate::api::{Run, RunSpec, WorkspaceRef, WorkspaceSpec};
use crate::decide::{
    Choice, Decision, Effect, Inputs, Memory, Session, Settings, Stream, WorkspaceView, decide,
    request,
};

/// This process.
const ME: &str = "me";

pub fn intent(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (uid, annotation) = text.split_once('\n').unwrap_or(("", &text));
    let record = IntentRecord::read(Some(annotation), uid);
    match &record {
        IntentRecord::Own(intent) => {
            assert_eq!(intent.uid, uid);
            let written = serde_json::to_string(intent).unwrap();
            assert_eq!(IntentRecord::read(Some(&written), uid), record);
            let elsewhere = IntentRecord::read(Some(&written), &format!("{uid}-"));
            assert_eq!(elsewhere, IntentRecord::Foreign);
        }
        IntentRecord::Foreign | IntentRecord::Unreadable => {}
        IntentRecord::Absent => panic!("there is an annotation"),
    }
    for (now, deleting) in [(0, false), (0, true), (1 << 33, false), (1 << 33, true)] {
        let now = Timestamp::from_second(now).unwrap();
        let run = run(uid, annotation, deleting.then_some(now));
        let decision = decided(&run, now);
        assert_eq!(decided(&run, now).effect, decision.effect);
        is_allowed(&decision, &record, &run);
    }
}

fn run(uid: &str, annotation: &str, deleted: Option<Timestamp>) -> Run {
    let workload = serde_json::json!({"image": "ghcr.io/acme/train:1.4"});
    let spec: RunSpec = serde_json::from_value(serde_json::json!({"workload": workload})).unwrap();
    let mut run = Run::new("train", spec);
    let metadata = &mut run.metadata;
    metadata.namespace = Some("team".into());
    metadata.uid = Some(uid.into());
    metadata.generation = Some(1);
    metadata.finalizers = Some(vec![FINALIZER.into()]);
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(INTENT_ANNOTATION.into(), annotation.into());
    metadata.deletion_timestamp = deleted.map(Into::into);
    run
}

fn decided(run: &Run, now: Timestamp) -> Decision {
    let place = ResolvedWorkspace {
        kind: WorkspaceKind::Workspace,
        name: "default".into(),
        uid: "w1".into(),
        base_url: "https://runs.example.com/api/v1".into(),
        identity: Some("ws-123".into()),
    };
    decide(&Inputs {
        run,
        choice: &Choice::One(WorkspaceRef::own_default()),
        workspace: &WorkspaceView::Ready(Session {
            number: 1,
            resolved: place,
            submissions_blocked: None,
        }),
        rules: Some(&WorkspaceSpec::default()),
        namespace_allowed: Some(true),
        memory: &Memory::default(),
        key_holder: None,
        needs_slot: None,
        deleted_without_release: false,
        stream: Stream::Closed,
        call_delay: None,
        contract: &CONTRACT,
        settings: &Settings {
            process: ME.into(),
            poll_min: Duration::from_secs(2),
            poll_max: Duration::from_mins(1),
            service_events: true,
            console_origins: crate::decide::console::ConsoleOrigins::default(),
        },
        now,
        wall: now,
    })
}

fn is_allowed(decision: &Decision, record: &IntentRecord, run: &Run) {
    let bytes = request::body(&run.spec, 1).unwrap();
    match (&decision.effect, record) {
        // Only what the intent records, and only by its owner.
        (Some(Effect::Submit { key, body }), IntentRecord::Own(intent)) => {
            assert_eq!((&*intent.owner, &intent.key), (ME, key));
            assert_eq!(intent.sha256, crate::util::sha256(body));
            assert_eq!(body, &bytes);
        }
        (Some(Effect::Submit { .. }), _) => panic!("a POST without an intent"),
        // A takeover keeps what was recorded: key, bytes and time.
        (Some(Effect::WriteIntent { intent: new, .. }), IntentRecord::Own(old)) => {
            assert_eq!(
                (&new.key, &new.sha256, new.time),
                (&old.key, &old.sha256, old.time)
            );
            assert!(new.owner == ME && new.epoch > old.epoch);
        }
        (Some(Effect::WriteIntent { .. }), _) => panic!("another's record is replaced"),
        // An object with an intent of its own may have a run.
        (Some(Effect::Release { .. }), IntentRecord::Own(old)) => assert!(old.end.is_some()),
        (Some(Effect::Refresh { run_id } | Effect::Cancel { run_id }), record) => {
            panic!("a call for {run_id:?}, of which nothing is known but {record:?}")
        }
        _ => {}
    }
    if let Some(status) = &decision.status {
        let size = serde_json::to_vec(status).unwrap().len();
        assert!(size < 32 * 1024, "a status of {size} bytes");
    }
}
