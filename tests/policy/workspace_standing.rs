//! What a Workspace that can't be used waits for: time (Reconciling), or a person (Stalled).

use rstest::rstest;
use run_operator::{
    api::{ConditionType as Type, Reason, conditions},
    decide::{
        conditions::Why,
        workspace::{Check, Obstacle, assess},
    },
};

use crate::support::{CONTRACT, at};

/// Proves: P-argocd, P-conditions
#[rstest]
#[case(Reason::SecretNotFound, false)]
#[case(Reason::ServiceUnavailable, false)]
#[case(Reason::Unauthorized, false)]
#[case(Reason::SecretKeyNotFound, true)]
#[case(Reason::SecretForbidden, true)]
#[case(Reason::TokenMalformed, true)]
#[case(Reason::TokenIsProviderKey, true)]
#[case(Reason::CAInvalid, true)]
#[case(Reason::BaseURLNotAllowed, true)]
#[case(Reason::WorkspaceMismatch, true)]
fn what_only_an_edit_mends_is_stalled(#[case] reason: Reason, #[case] stalled: bool) {
    let check = Check {
        obstacle: Some(Obstacle::Config(Why::new(reason, "It is so."))),
        ..Check::default()
    };
    let status = assess(None, &check, 7, 1, &CONTRACT, at(0)).status;
    let (there, not_there) = if stalled {
        (Type::Stalled, Type::Reconciling)
    } else {
        (Type::Reconciling, Type::Stalled)
    };
    let found = conditions::find(&status.conditions, there).expect("what it waits for");
    assert_eq!((&*found.status, &*found.reason), ("True", reason.as_str()));
    assert_eq!(conditions::find(&status.conditions, not_there), None);
    for condition in &status.conditions {
        assert_eq!(
            condition.observed_generation,
            Some(7),
            "{}",
            condition.type_
        );
    }
}
