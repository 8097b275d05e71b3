//! Priority of the Runs that share an `spec.idempotencyKey`.

use rstest::rstest;
use run_operator::{
    api::intent::IntentRecord,
    decide::claims::{KeyClaim, created},
};

use crate::support::{Case, at};

/// Proves: P-key-in-use
#[rstest]
#[case::its_own_intent(IntentRecord::Own(Box::new(Case::new().an_intent("me", 1))), KeyClaim::Holds)]
#[case::an_intent_that_can_t_be_read(IntentRecord::Unreadable, KeyClaim::Holds)]
#[case::no_intent(IntentRecord::Absent, KeyClaim::Waits)]
#[case::the_intent_of_another(IntentRecord::Foreign, KeyClaim::Copy)]
fn a_claim_follows_from_the_intent(#[case] intent: IntentRecord, #[case] claim: KeyClaim) {
    assert_eq!(KeyClaim::of(&Case::new().run, &intent), claim);
}

#[test]
fn a_submitted_run_whose_intent_was_removed_holds_its_key() {
    let run = Case::new().submitted("running").run;
    assert_eq!(KeyClaim::of(&run, &IntentRecord::Absent), KeyClaim::Holds);
    assert_eq!(KeyClaim::of(&run, &IntentRecord::Foreign), KeyClaim::Copy);
}

/// Proves: P-key-in-use
#[rstest]
#[case::a_holder_however_young(KeyClaim::Holds, (9, "z"), false, true)]
#[case::a_holder_before_one_that_claimed(KeyClaim::Holds, (9, "z"), true, true)]
#[case::an_elder(KeyClaim::Waits, (4, "z"), false, true)]
#[case::an_elder_by_its_uid(KeyClaim::Waits, (5, "a"), false, true)]
#[case::no_elder_before_one_that_claimed(KeyClaim::Waits, (4, "a"), true, false)]
#[case::no_younger_one(KeyClaim::Waits, (6, "a"), false, false)]
#[case::no_younger_one_by_its_uid(KeyClaim::Waits, (5, "n"), false, false)]
#[case::not_itself(KeyClaim::Waits, (5, "m"), false, false)]
#[case::no_copy(KeyClaim::Copy, (1, "a"), false, false)]
fn priority_goes_to(
    #[case] claim: KeyClaim,
    #[case] (created, uid): (i64, &str),
    #[case] claimed: bool,
    #[case] first: bool,
) {
    let other = (at(5), "m");
    assert_eq!(
        claim.has_priority((at(created), uid), other, claimed),
        first
    );
}

#[test]
fn the_order_of_claims_is_the_order_of_priority() {
    assert!(KeyClaim::Holds < KeyClaim::Waits && KeyClaim::Waits < KeyClaim::Copy);
}

#[test]
fn a_run_without_a_creation_time_is_the_eldest() {
    let mut run = Case::new().run;
    run.metadata.creation_timestamp = None;
    assert_eq!(created(&run), jiff::Timestamp::MIN);
}
