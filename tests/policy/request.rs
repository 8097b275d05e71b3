//! The bytes of a create, its key, and the waits: what must never change by accident.

use std::{collections::BTreeSet, time::Duration};

use rstest::rstest;
use run_operator::{
    decide::{
        delays,
        request::{body, idempotency_key},
    },
    util::sha256,
};
use serde_json::json;

use crate::support::{Case, UID};

/// Serializer 1 must never change: an intent in a cluster somewhere has the hash of these bytes.
/// Proves: S-run, P-same-bytes, P-defaults
#[test]
fn serializer_1_gives_these_bytes() {
    let case = Case::new().spec(|s| {
        let workload = json!({
            "zeta": {"b": [3, {"y": null, "x": true}], "a": "ü\u{2028}\"\\\n\u{1}/<&>"},
            "image": "img:1",
            "numbers": [0, -1, 1.5, 1.0, 9_007_199_254_740_993_i64, 18_446_744_073_709_551_615_u64, 1e300],
            "Env": {},
            "nothing": null,
        });
        s.workload = workload.as_object().expect("an object").clone().into();
        s.region = Some("eu".into());
    });
    let bytes = body(&case.run.spec, 1).expect("known");
    let expected = concat!(
        r#"{"provider":"auto","region":"eu","workload":{"Env":{},"image":"img:1","nothing":null,"#,
        r#""numbers":[0,-1,1.5,1.0,9007199254740993,18446744073709551615,1e+300],"#,
        r#""zeta":{"a":"ü"#,
        "\u{2028}",
        r#"\"\\\n\u0001/<&>","b":[3,{"x":true,"y":null}]}}}"#
    );
    assert_eq!(String::from_utf8(bytes.clone()).expect("UTF-8"), expected);
    assert_eq!(sha256(&bytes), sha256(expected.as_bytes()));
    assert_eq!(
        sha256(b"abc"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
}

/// Proves: S-run, P-defaults
#[test]
fn what_the_spec_leaves_unset_is_auto() {
    let bytes = body(&Case::new().run.spec, 1).expect("known");
    let sent: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    let expected = json!({
        "provider": "auto", "region": "auto", "workload": {"image": "ghcr.io/acme/train:1.4"},
    });
    assert_eq!(sent, expected);
}

#[test]
fn a_serializer_of_a_later_version_is_not_known() {
    assert_eq!(body(&Case::new().run.spec, 2), None);
    assert_eq!(body(&Case::new().run.spec, 0), None);
}

/// Proves: R1, P-same-bytes
#[test]
fn the_key_is_the_uid_or_the_users_own_scoped_by_namespace() {
    let case = Case::new();
    assert_eq!(idempotency_key(&case.run.spec, "team", UID), UID);
    let case = case.spec(|s| s.idempotency_key = Some("nightly".into()));
    assert_eq!(idempotency_key(&case.run.spec, "team", UID), "team/nightly");
}

/// Proves: R10, F-retried
#[rstest]
#[case(1, 500)]
#[case(2, 1_000)]
#[case(3, 2_000)]
#[case(9, 128_000)]
#[case(10, 256_000)]
#[case(11, 300_000)]
#[case(u32::MAX, 300_000)]
fn a_wait_is_between_its_step_and_twice_that(#[case] attempt: u32, #[case] step: u64) {
    for seed in 0..50 {
        let wait = delays::backoff(attempt, None, seed);
        assert!(wait >= Duration::from_millis(step), "{wait:?}");
        let most = Duration::from_millis(step * 2).min(Duration::from_mins(5));
        assert!(wait <= most, "{wait:?}");
        assert_eq!(wait, delays::backoff(attempt, None, seed), "deterministic");
    }
    let waits: Vec<_> = (0..50).map(|s| delays::backoff(1, None, s)).collect();
    assert!(waits.iter().any(|w| *w != waits[0]), "jittered");
}

/// Proves: R10a, F-retried
#[rstest]
#[case(0, 1, 2)]
#[case(5, 5, 5)]
#[case(600, 600, 600)]
#[case(100_000, 600, 600)]
fn retry_after_is_honoured_within_a_second_and_ten_minutes(
    #[case] asked: u64,
    #[case] least: u64,
    #[case] most: u64,
) {
    let wait = delays::backoff(1, Some(Duration::from_secs(asked)), 7);
    assert!(
        wait >= Duration::from_secs(least) && wait <= Duration::from_secs(most),
        "{wait:?}"
    );
}

/// Proves: P-events-hint
#[test]
fn poll_intervals_double_to_a_maximum_with_a_tenth_of_jitter() {
    let (min, max) = (Duration::from_secs(2), Duration::from_mins(1));
    for quiet in [0, 1, 2, 5, 16, 40, u32::MAX] {
        let base = min.saturating_mul(1 << quiet.min(16)).min(max);
        let wait = delays::poll_interval(quiet, min, max, delays::seed(UID, quiet));
        assert!(wait >= base && wait <= base + base / 10, "{wait:?}");
    }
}

#[test]
fn the_polls_of_runs_that_were_applied_together_drift_apart() {
    let (min, max) = (Duration::from_secs(2), Duration::from_mins(1));
    let poll = |n: u32| delays::poll_interval(0, min, max, delays::seed(&format!("uid-{n}"), 0));
    let waits: BTreeSet<_> = (0..100).map(poll).collect();
    assert!(waits.len() > 50, "{waits:?}");
    // Over all of the tenth.
    let (first, last) = (waits.first().expect("one"), waits.last().expect("one"));
    assert!(*last > *first + Duration::from_millis(150), "{waits:?}");
}

/// A decision is the same after a restart, by whatever build.
#[test]
fn the_seed_of_an_object_never_changes() {
    assert_eq!(delays::seed("", 0), 5_558_979_605_539_197_941);
    assert_eq!(delays::seed(UID, 1), 3_526_883_166_665_230_062);
}
