//! What the operator leans on outside of `decide`: how its writes are guarded, what it reads, what it
//! calls with. Each can be taken away.

use run_operator::decide::rules::{Rule, without};

use crate::model::{self, Violation};
use crate::scenarios::Scenario;

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

    /// What goes wrong without it, in the first of these scenarios where something does.
    pub(crate) fn missed(
        self,
        scenarios: impl IntoIterator<Item = Scenario>,
        states: usize,
    ) -> Option<(&'static str, Violation)> {
        let fences = match self {
            Self::Rule(rule) => {
                without(Some(rule));
                Fences::default()
            }
            Self::Fence(fence) => Fences(Some(fence)),
        };
        let mut scenarios = scenarios.into_iter();
        let found = scenarios.find_map(|scenario| {
            let name = scenario.name;
            let found = model::check(scenario, fences, 2, states);
            found.violation.map(|violation| (name, violation))
        });
        without(None);
        found
    }
}
