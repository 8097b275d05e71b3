//! The lives of Runs, and the expected end of each: all of it from numbers of a seed.

use fastrand::Rng;
use run_operator::api::Phase;
use serde_json::{Value, json};

/// The actions of a person on a Run, in order.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Creates it, or creates it again under the same name as soon as that is free.
    Create(Value),
    /// Creates it with the intent of another Run, as a copied manifest has it.
    Copy(Value),
    /// `kubectl delete --wait=false`.
    Delete,
    /// A merge patch.
    Change(Value),
    /// `kubectl replace` with nothing but name and spec, once the run's id is known.
    Strip,
}

/// The stories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Succeeds,
    Fails,
    Cancelled,
    DeletedAtOnce,
    DeletedActive,
    DeletedStubborn,
    DeletedAfterEnd,
    Deadline,
    TimeToLive,
    Orphaned,
    Released,
    SuspendedDeleted,
    Recreated,
    Edited,
    Refused,
    Copied,
    CopyRetried,
    CopyDeleted,
    Stripped,
    StrippedCancelled,
    OwnKey,
    TwinKey,
    OwnKeyAgain,
    Heavy,
    Deep,
}

impl Kind {
    pub(crate) const ALL: [Self; 25] = [
        Self::Succeeds,
        Self::Fails,
        Self::Cancelled,
        Self::DeletedAtOnce,
        Self::DeletedActive,
        Self::DeletedStubborn,
        Self::DeletedAfterEnd,
        Self::Deadline,
        Self::TimeToLive,
        Self::Orphaned,
        Self::Released,
        Self::SuspendedDeleted,
        Self::Recreated,
        Self::Edited,
        Self::Refused,
        Self::Copied,
        Self::CopyRetried,
        Self::CopyDeleted,
        Self::Stripped,
        Self::StrippedCancelled,
        Self::OwnKey,
        Self::TwinKey,
        Self::OwnKeyAgain,
        Self::Heavy,
        Self::Deep,
    ];
}

/// The expected number of runs at the service for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    None,
    AtMostOne,
    One,
}

/// The expected end of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// Its phase; `None`: it no longer exists.
    pub(crate) phase: Option<Phase>,
    pub(crate) runs: Runs,
    /// The run may continue without the object.
    pub(crate) may_live: bool,
    /// The reason of a condition that must be True.
    pub(crate) reason: Option<&'static str>,
}

/// One Run's story.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Image of the creates that the service must refuse once.
    pub(crate) refused: Option<String>,
    pub(crate) own_key: Option<String>,
    /// Milliseconds after the storm's beginning, and what is done then.
    pub(crate) acts: Vec<(u64, Act)>,
}

/// So many lives, begun within `within` milliseconds. Each kind is as frequent as any other.
pub(crate) fn lives(count: usize, within: u64, random: &mut Rng) -> Vec<Life> {
    let mut kinds: Vec<Kind> = Kind::ALL.into_iter().cycle().take(count).collect();
    random.shuffle(&mut kinds);
    let births = kinds.into_iter().enumerate();
    births
        .map(|(n, kind)| life(n, kind, random.u64(0..within), random))
        .collect()
}

fn life(n: usize, kind: Kind, birth: u64, random: &mut Rng) -> Life {
    let refused = (kind == Kind::Refused).then(|| format!("ghcr.io/acme/refused:{n}"));
    let image = refused.as_deref().unwrap_or("ghcr.io/acme/train:1.4");
    let (first, rest) = story(kind, image, random);
    let mut spec = match &first {
        Act::Create(spec) | Act::Copy(spec) => spec.clone(),
        _ => unreachable!("a life begins with a birth"),
    };
    // Two Runs in a row that are twins have one key.
    let own_key = match kind {
        Kind::OwnKey | Kind::OwnKeyAgain => Some(format!("key-{n}")),
        Kind::TwinKey => Some("twins".to_owned()),
        _ => None,
    };
    if let Some(key) = &own_key {
        spec["idempotencyKey"] = json!(key);
    }
    let birth_act = if matches!(first, Act::Copy(_)) {
        Act::Copy(spec.clone())
    } else {
        Act::Create(spec.clone())
    };
    let mut at = birth;
    let mut acts = vec![(at, birth_act)];
    for (pause, act) in rest {
        at += pause;
        // With a key of its own, an object that is created again makes the same request.
        let act = match act {
            Act::Create(_) if own_key.is_some() => Act::Create(spec.clone()),
            other => other,
        };
        acts.push((at, act));
    }
    Life {
        name: format!("{}-{n}", format!("{kind:?}").to_lowercase()),
        kind,
        refused,
        own_key,
        acts,
    }
}

/// The first action and the later ones, each with the pause before it.
fn story(kind: Kind, image: &str, random: &mut Rng) -> (Act, Vec<(u64, Act)>) {
    let of = |with: Value, simulate: Value| {
        let mut spec = with;
        spec["workload"] = json!({"image": image, "simulate": simulate});
        Act::Create(spec)
    };
    let length = random.u64(100..4000);
    let ends = |outcome: &str| json!({"outcome": outcome, "runTimeMs": length, "logEvents": 3});
    let never = || json!({"outcome": "never", "logEvents": 2});
    let soon = random.u64(0..300);
    let later = random.u64(500..5000);
    let delete = |after| vec![(after, Act::Delete)];
    let change = |after, patch: Value| vec![(after, Act::Change(patch))];
    let retry = json!({"metadata": {"annotations": {"run-operator.dev/retry": "first"}}});
    match kind {
        Kind::Succeeds | Kind::OwnKey | Kind::Copied | Kind::Heavy | Kind::Deep => {
            let birth = of(json!({}), ends("succeeded"));
            (copied(kind, laden(kind, birth)), vec![])
        }
        // The same bytes for all of them, else they would contradict each other.
        Kind::TwinKey => (of(json!({}), json!({"runTimeMs": 500})), vec![]),
        Kind::CopyRetried => (
            copied(kind, of(json!({}), ends("succeeded"))),
            change(later, retry),
        ),
        Kind::CopyDeleted => (
            copied(kind, of(json!({}), ends("succeeded"))),
            delete(later),
        ),
        Kind::Fails => (of(json!({}), ends("failed")), vec![]),
        Kind::Cancelled => (
            of(json!({}), never()),
            change(soon.max(later / 2), json!({"spec": {"cancel": true}})),
        ),
        Kind::DeletedAtOnce => (of(json!({}), never()), delete(soon)),
        Kind::DeletedActive => (of(json!({}), never()), delete(later)),
        Kind::DeletedStubborn => {
            let stubborn = json!({"outcome": "never", "cancel": "ignoreFirst"});
            (of(json!({}), stubborn), delete(later))
        }
        Kind::DeletedAfterEnd => (
            of(json!({}), json!({"runTimeMs": 100})),
            delete(later + 2000),
        ),
        Kind::Deadline => {
            let deadline = json!({"activeDeadlineSeconds": random.u64(1..4)});
            (of(deadline, never()), vec![])
        }
        Kind::TimeToLive => (
            of(json!({"ttlSecondsAfterFinished": 1}), ends("succeeded")),
            vec![],
        ),
        Kind::Orphaned => (
            of(json!({"deletionPolicy": "Orphan"}), never()),
            delete(later),
        ),
        Kind::Released => (
            of(json!({"suspend": true}), ends("succeeded")),
            change(later, json!({"spec": {"suspend": false}})),
        ),
        Kind::SuspendedDeleted => (of(json!({"suspend": true}), never()), delete(later)),
        Kind::Recreated => {
            let again = of(json!({}), ends("succeeded"));
            (
                of(json!({}), never()),
                vec![(later, Act::Delete), (soon, again)],
            )
        }
        Kind::Edited => {
            let edits = [
                json!({"metadata": {"annotations": {"note": "one"}, "labels": {"team": "a"}}}),
                json!({"spec": {"deletionPolicy": "Orphan", "ttlSecondsAfterFinished": 86400}}),
                json!({"metadata": {"annotations": {"note": "two"}}, "spec": {"activeDeadlineSeconds": 86400}}),
                json!({"spec": {"deletionPolicy": null}, "metadata": {"labels": null}}),
            ];
            let edits = edits.map(|edit| (random.u64(50..800), Act::Change(edit)));
            (of(json!({}), ends("succeeded")), edits.into())
        }
        Kind::Refused => (of(json!({}), ends("succeeded")), change(later, retry)),
        Kind::Stripped => (of(json!({}), ends("succeeded")), vec![(soon, Act::Strip)]),
        Kind::StrippedCancelled => {
            let cancel = Act::Change(json!({"spec": {"cancel": true}}));
            (
                of(json!({}), never()),
                vec![(soon, Act::Strip), (later, cancel)],
            )
        }
        Kind::OwnKeyAgain => {
            let orphan = json!({"deletionPolicy": "Orphan"});
            let birth = of(orphan, ends("succeeded"));
            let again = birth.clone();
            (birth, vec![(later, Act::Delete), (soon, again)])
        }
    }
}

/// Adds a large or deep workload.
fn laden(kind: Kind, mut birth: Act) -> Act {
    let load: Value = match kind {
        // Some 200 KB.
        Kind::Heavy => vec![json!({"a": 0}); 25_000].into(),
        // More levels than most readers of JSON take.
        Kind::Deep => (0..200).fold(json!(0), |inner, _| json!([inner])),
        _ => return birth,
    };
    if let Act::Create(spec) = &mut birth {
        spec["workload"]["load"] = load;
    }
    birth
}

fn copied(kind: Kind, birth: Act) -> Act {
    match birth {
        Act::Create(spec)
            if matches!(kind, Kind::Copied | Kind::CopyRetried | Kind::CopyDeleted) =>
        {
            Act::Copy(spec)
        }
        other => other,
    }
}

impl Kind {
    /// The expected end of the `nth` object of its life.
    pub(crate) fn end(self, nth: usize) -> End {
        let ends = |phase, runs| End {
            phase: Some(phase),
            runs,
            may_live: false,
            reason: None,
        };
        let gone = |runs| End {
            phase: None,
            runs,
            may_live: false,
            reason: None,
        };
        match self {
            Self::Recreated if nth == 0 => gone(Runs::AtMostOne),
            Self::OwnKeyAgain if nth == 0 => gone(Runs::One),
            Self::Succeeds
            | Self::Released
            | Self::Recreated
            | Self::Edited
            | Self::Refused
            | Self::CopyRetried
            | Self::Stripped
            | Self::OwnKey
            | Self::TwinKey
            | Self::OwnKeyAgain
            | Self::Heavy
            | Self::Deep => ends(Phase::Succeeded, Runs::One),
            Self::Fails => ends(Phase::Failed, Runs::One),
            // Cancelled before it was submitted it has no run.
            Self::Cancelled => ends(Phase::Cancelled, Runs::AtMostOne),
            Self::StrippedCancelled => ends(Phase::Cancelled, Runs::One),
            Self::Deadline => End {
                reason: Some("DeadlineExceeded"),
                ..ends(Phase::Failed, Runs::One)
            },
            Self::Copied => End {
                reason: Some("Restored"),
                ..ends(Phase::Pending, Runs::None)
            },
            Self::CopyDeleted | Self::SuspendedDeleted => gone(Runs::None),
            Self::DeletedAtOnce
            | Self::DeletedActive
            | Self::DeletedStubborn
            | Self::DeletedAfterEnd => gone(Runs::AtMostOne),
            Self::TimeToLive => gone(Runs::One),
            Self::Orphaned => End {
                may_live: true,
                ..gone(Runs::AtMostOne)
            },
        }
    }

    /// True if a person must set a retry when the faults have ended.
    pub(crate) fn retried(self) -> bool {
        matches!(self, Self::Refused | Self::CopyRetried)
    }
}
