//! What an effect is to the controller: its name, its claim, its change of the object, its Events.

use rstest::rstest;
use run_operator::{
    api::{EventReason, finalizer},
    decide::{Decision, Effect, EventDraft, MetadataChange},
};

use crate::support::Case;

fn write_intent(epoch: i64, clean: bool) -> Effect {
    Effect::WriteIntent {
        intent: Box::new(Case::new().an_intent("process-1", epoch)),
        finalizer: true,
        clean,
    }
}

#[rstest]
#[case::first(write_intent(1, true), true)]
// The key is this Run's already.
#[case::takeover_or_retry(write_intent(2, true), false)]
// A POST may have been sent.
#[case::repair(write_intent(1, false), false)]
#[case::no_intent(Effect::Delete, false)]
fn only_a_first_intent_claims_the_key(#[case] effect: Effect, #[case] claims: bool) {
    assert_eq!(effect.claims_key(), claims);
}

#[test]
fn logs_name_the_effect() {
    assert_eq!(write_intent(1, true).name(), "write intent");
    assert_eq!(Effect::Delete.name(), "delete");
}

#[rstest]
#[case::released(Effect::Release { end: None }, true, 1)]
#[case::deleted(Effect::Delete, true, 0)]
#[case::there(Effect::Delete, false, 1)]
fn a_deleted_object_has_only_the_events_of_its_release(
    #[case] effect: Effect,
    #[case] deleted: bool,
    #[case] published: usize,
) {
    let decision = Decision {
        effect: Some(effect),
        events: vec![EventDraft::new(EventReason::Cancelled, "", "it ended")],
        ..Decision::quiet()
    };
    assert_eq!(decision.events_due(deleted).len(), published);
}

#[rstest]
#[case::wanted(true, false, true)]
#[case::there_already(true, true, false)]
#[case::of_a_deleted_object(false, false, false)]
fn an_intent_brings_the_finalizer_that_is_missing(
    #[case] wanted: bool,
    #[case] there: bool,
    #[case] written: bool,
) {
    let mut case = Case::new();
    case.run.metadata.finalizers = there.then(|| finalizer::with(&case.run.metadata, true));
    let intent = case.an_intent("process-1", 1);
    let change = MetadataChange::write_intent(&case.run, &intent, wanted).unwrap();
    assert_eq!(change.finalizers.is_some(), written);
}
