//! The lives of Runs, and the expected end of each: all of it from numbers of a seed.

use clap::ValueEnum;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
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
    let kinds = Kind::value_variants().iter().copied();
    let mut kinds: Vec<Kind> = kinds.cycle().take(count).collect();
    random.shuffle(&mut kinds);
    let kinds = kinds.into_iter().enumerate();
    let births = kinds.map(|(n, kind)| life(n, kind, random.u64(0..within), random));
    births.collect()
}

fn life(n: usize, kind: Kind, birth: u64, random: &mut Rng) -> Life {
    let refused = (kind == Kind::Refused).then(|| format!("ghcr.io/acme/refused:{n}"));
    // Runs that are twins have one key.
    let own_key = match kind {
        Kind::OwnKey | Kind::OwnKeyAgain => Some(format!("key-{n}")),
        Kind::TwinKey => Some("twins".to_owned()),
        _ => None,
    };
    let whole = |mut spec: Value| {
        let image = refused.as_deref().unwrap_or("ghcr.io/acme/train:1.4");
        spec["workload"]["image"] = json!(image);
        match kind {
            // Some 200 KB.
            Kind::Heavy => spec["workload"]["load"] = vec![json!({"a": 0}); 25_000].into(),
            // More levels than most readers of JSON take.
            Kind::Deep => {
                let deep = (0..200).fold(json!(0), |inner, _| json!([inner]));
                spec["workload"]["load"] = deep;
            }
            _ => {}
        }
        if let Some(key) = &own_key {
            spec["idempotencyKey"] = json!(key);
        }
        spec
    };
    let (spec, rest) = story(kind, random);
    let spec = whole(spec);
    let first = match kind {
        Kind::Copied | Kind::CopyRetried | Kind::CopyDeleted => Act::Copy(spec),
        _ => Act::Create(spec),
    };
    let mut at = birth;
    let mut acts = vec![(at, first)];
    for (pause, act) in rest {
        at += pause;
        let act = match act {
            Act::Create(spec) => Act::Create(whole(spec)),
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

/// The spec that it is created with, and the later actions, each with the pause before it.
fn story(kind: Kind, random: &mut Rng) -> (Value, Vec<(u64, Act)>) {
    let of = |mut spec: Value, simulate: Value| {
        spec["workload"] = json!({"simulate": simulate});
        spec
    };
    let length = random.u64(100..4000);
    let ends = |outcome: &str| json!({"outcome": outcome, "runTimeMs": length, "logEvents": 3});
    let succeeds = || of(json!({}), ends("succeeded"));
    let never = || of(json!({}), json!({"outcome": "never", "logEvents": 2}));
    let soon = random.u64(0..300);
    let later = random.u64(500..5000);
    let delete = |after| vec![(after, Act::Delete)];
    let change = |after, patch: Value| vec![(after, Act::Change(patch))];
    let retry = json!({"metadata": {"annotations": {"run-operator.dev/retry": "first"}}});
    let with = |mut spec: Value, field: &str, value: Value| {
        spec[field] = value;
        spec
    };
    match kind {
        Kind::Succeeds | Kind::OwnKey | Kind::Copied | Kind::Heavy | Kind::Deep => {
            (succeeds(), vec![])
        }
        // The same bytes for all of them, else they would contradict each other.
        Kind::TwinKey => (of(json!({}), json!({"runTimeMs": 500})), vec![]),
        Kind::CopyRetried | Kind::Refused => (succeeds(), change(later, retry)),
        Kind::CopyDeleted => (succeeds(), delete(later)),
        Kind::Fails => (of(json!({}), ends("failed")), vec![]),
        Kind::Cancelled => {
            let cancel = json!({"spec": {"cancel": true}});
            (never(), change(soon.max(later / 2), cancel))
        }
        Kind::DeletedAtOnce => (never(), delete(soon)),
        Kind::DeletedActive => (never(), delete(later)),
        Kind::DeletedStubborn => {
            let stubborn = json!({"outcome": "never", "cancel": "ignoreFirst"});
            (of(json!({}), stubborn), delete(later))
        }
        Kind::DeletedAfterEnd => {
            let short = of(json!({}), json!({"runTimeMs": 100}));
            (short, delete(later + 2000))
        }
        Kind::Deadline => {
            let seconds = json!(random.u64(1..4));
            (with(never(), "activeDeadlineSeconds", seconds), vec![])
        }
        Kind::TimeToLive => {
            let spec = with(succeeds(), "ttlSecondsAfterFinished", json!(1));
            (spec, vec![])
        }
        Kind::Orphaned => {
            let spec = with(never(), "deletionPolicy", json!("Orphan"));
            (spec, delete(later))
        }
        Kind::Released => {
            let resumed = json!({"spec": {"suspend": false}});
            let spec = with(succeeds(), "suspend", json!(true));
            (spec, change(later, resumed))
        }
        Kind::SuspendedDeleted => (with(never(), "suspend", json!(true)), delete(later)),
        Kind::Recreated => {
            let again = Act::Create(succeeds());
            (never(), vec![(later, Act::Delete), (soon, again)])
        }
        Kind::Edited => {
            let edits = [
                json!({"metadata": {"annotations": {"note": "one"}, "labels": {"team": "a"}}}),
                json!({"spec": {"deletionPolicy": "Orphan", "ttlSecondsAfterFinished": 86400}}),
                json!({"metadata": {"annotations": {"note": "two"}}, "spec": {"activeDeadlineSeconds": 86400}}),
                json!({"spec": {"deletionPolicy": null}, "metadata": {"labels": null}}),
            ];
            let edits = edits.map(|edit| (random.u64(50..800), Act::Change(edit)));
            (succeeds(), edits.into())
        }
        Kind::Stripped => (succeeds(), vec![(soon, Act::Strip)]),
        Kind::StrippedCancelled => {
            let cancel = Act::Change(json!({"spec": {"cancel": true}}));
            (never(), vec![(soon, Act::Strip), (later, cancel)])
        }
        Kind::OwnKeyAgain => {
            let spec = with(succeeds(), "deletionPolicy", json!("Orphan"));
            let again = Act::Create(spec.clone());
            (spec, vec![(later, Act::Delete), (soon, again)])
        }
    }
}

impl Kind {
    /// The expected end of the `nth` object of its life.
    pub(crate) fn end(self, nth: usize) -> End {
        let end = |phase, runs| End {
            phase,
            runs,
            may_live: false,
            reason: None,
        };
        let ends = |phase, runs| end(Some(phase), runs);
        let gone = |runs| end(None, runs);
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

    /// Whether its runs are active only while the operator counts them. Not if they are orphaned; nor if the service has
    /// refused a create, of which a copy on the way may have made a run.
    pub(crate) fn has_a_slot(self) -> bool {
        !matches!(self, Self::Orphaned | Self::OwnKeyAgain | Self::Refused)
    }

    /// True if a person must set a retry when the faults have ended.
    pub(crate) fn retried(self) -> bool {
        matches!(self, Self::Refused | Self::CopyRetried)
    }
}
