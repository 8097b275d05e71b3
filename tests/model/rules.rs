//! What the operator leans on outside of `decide`: how its writes are guarded, what it reads, what it
//! calls with. Each can be taken away.

use run_operator::decide::rules::{Rule, without};

use crate::model::{self, Violation};
use crate::scenarios;

macro_rules! fences {
    ($($(#[doc = $says:literal])+ $name:ident,)+) => {
        /// A guard of the controller or of the API server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Fence { $($(#[doc = $says])+ $name,)+ }

        impl Fence {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name,)+];

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            pub(crate) const fn says(self) -> &'static str {
                match self { $(Self::$name => concat!($($says,)+).trim_ascii(),)+ }
            }
        }
    };
}

fences! {
    /// A status is written over the version alone that was read.
    StatusVersion,
    /// So is an intent.
    IntentVersion,
    /// So is the finalizer taken off.
    ReleaseVersion,
    /// A write is for this uid at this version, and not for whatever has the name.
    Uid,
    /// A process reads its own writes.
    OwnWrites,
    /// A call is made with the token that was verified, not with the one in the Secret.
    Session,
}

/// The fences that stand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fences(pub(crate) Option<Fence>);

impl Fences {
    pub(crate) fn holds(self, fence: Fence) -> bool {
        self.0 != Some(fence)
    }
}

/// What is taken away.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Away {
    Rule(Rule),
    Fence(Fence),
}

impl Away {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let rules = Rule::ALL.iter().map(|r| Self::Rule(*r));
        rules.chain(Fence::ALL.iter().map(|f| Self::Fence(*f)))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rule(rule) => rule.name(),
            Self::Fence(fence) => fence.name(),
        }
    }

    pub(crate) fn says(self) -> &'static str {
        match self {
            Self::Rule(rule) => rule.says(),
            Self::Fence(fence) => fence.says(),
        }
    }

    /// What goes wrong without it, and in which scenario.
    pub(crate) fn missed(self, states: usize) -> Option<(&'static str, Violation)> {
        let fences = match self {
            Self::Rule(rule) => {
                without(Some(rule));
                Fences::default()
            }
            Self::Fence(fence) => Fences(Some(fence)),
        };
        let asked = WHERE
            .iter()
            .find(|w| w.0 == self.name())
            .map_or(&[][..], |w| w.1);
        let mut all = scenarios::all(false)
            .into_iter()
            .filter(|s| asked.contains(&s.name));
        let found = all.find_map(|scenario| {
            let name = scenario.name;
            let found = model::check(scenario, fences, states);
            found.violation.map(|violation| (name, violation))
        });
        without(None);
        found
    }
}

/// Where each is missed first: these scenarios alone are asked.
pub(crate) const WHERE: &[(&str, &[&str])] = &[
    ("AgeAsWritten", &["a forged intent"]),
    ("PlaceAsWritten", &["a forged intent"]),
    ("SameKey", &["a forged intent"]),
    ("EndDoubted", &["a forged intent"]),
    ("IntentFirst", &["a crash and a lossy network"]),
    ("FinalizerFirst", &["a crash and a lossy network"]),
    (
        "OwnerPosts",
        &["a crash and a lossy network", "a stale leader"],
    ),
    ("AnsweredWrite", &["a stale leader whose writes are lost"]),
    (
        "TakeoverWithdraws",
        &[
            "a crash and a lossy network",
            "refused for good",
            "every class of answer",
        ],
    ),
    (
        "RetryWithdraws",
        &["refused for good", "every class of answer"],
    ),
    ("RetryOnce", &["refused for good", "every class of answer"]),
    ("ForeignWaits", &["restored and created again"]),
    ("ForeignFrees", &["restored and created again"]),
    ("ForeignStatus", &["restored and created again"]),
    ("UnreadableWaits", &["stripped while it is submitted"]),
    (
        "IntentRemembered",
        &[
            "stripped while it is submitted",
            "stripped, lost and forced",
        ],
    ),
    ("KeyInUse", &["one key for two"]),
    ("NamespaceAllowed", &["tokens and Workspaces"]),
    ("SameBytes", &["stripped while it is submitted"]),
    ("SameIdentity", &["tokens and Workspaces"]),
    ("VerifiedToken", &["tokens and Workspaces"]),
    ("NewSession", &["tokens and Workspaces"]),
    ("KeyRetention", &["the key is forgotten"]),
    (
        "SoleOwner",
        &["a crash and a lossy network", "a stale leader"],
    ),
    (
        "RefusalProves",
        &["every class of answer", "a crash and a lossy network"],
    ),
    ("ProblemProves", &["every class of answer"]),
    (
        "ConflictProvesNothing",
        &["a crash and a lossy network", "every class of answer"],
    ),
    ("GivenUpProvesNothing", &["a crash and a lossy network"]),
    ("UnreadableProvesNothing", &["every class of answer"]),
    ("BytesRefused", &["refused for good"]),
    (
        "RefusalKept",
        &[
            "refused for good",
            "every class of answer",
            "the key is forgotten",
        ],
    ),
    (
        "RefusalOfEpoch",
        &["refused for good", "every class of answer"],
    ),
    (
        "DoubtAsksAgain",
        &["every class of answer", "refused for good"],
    ),
    ("LoneConflict", &["every class of answer"]),
    ("HopelessIsFinal", &["every class of answer"]),
    ("ViolationStalls", &["every class of answer"]),
    ("SuspendTooLate", &["suspended"]),
    (
        "CancelUnsubmitted",
        &["suspended", "a crash and a lossy network"],
    ),
    ("HoldsFirst", &["tokens and Workspaces"]),
    ("HoldsOnlyFirst", &["tokens and Workspaces"]),
    (
        "RunIdAtOnce",
        &["a crash and a lossy network", "stripped, lost and forced"],
    ),
    ("RunIdConflict", &["cancelled in vain"]),
    ("Mended", &["stripped, lost and forced"]),
    ("CursorWaits", &["events"]),
    ("ReplayOnce", &["events"]),
    ("Overtaken", &["events"]),
    ("NotFoundThrice", &["not found"]),
    ("NotFoundApart", &["not found"]),
    ("DeniedKept", &["not found"]),
    ("Terminal", &["a crash and a lossy network"]),
    ("EndKept", &["stripped, lost and forced"]),
    ("DoubtHolds", &["a crash and a lossy network"]),
    ("Orphan", &["a crash and a lossy network"]),
    ("LookAfterCancel", &["cancelled in vain"]),
    ("CancelAgain", &["cancelled in vain"]),
    ("CancelOnce", &["cancelled in vain"]),
    ("SeenCancelling", &["cancelled in vain"]),
    ("Patience", &["cancelled in vain"]),
    ("PatienceFromDeletion", &["cancelled in vain"]),
    ("CancelDenies", &["cancelled in vain", "not found"]),
    ("GetDenies", &["cancelled in vain", "not found"]),
    ("VanishedCancelled", &["stripped, lost and forced"]),
    ("StatusVersion", &["events", "a stale leader"]),
    (
        "IntentVersion",
        &["a stale leader", "stripped, lost and forced"],
    ),
    (
        "ReleaseVersion",
        &["stripped, lost and forced", "a stale leader"],
    ),
    ("Uid", &["stripped, lost and forced"]),
    ("OwnWrites", &["a crash and a lossy network", "events"]),
    ("Session", &["tokens and Workspaces"]),
];

/// What happens nowhere in the model's world, and who sees it.
pub(crate) const ELSEWHERE: &[(&str, &str)] = &[];
