//! The possible actions and their number: each scenario bounds its own part of the world.

mod faults;
mod small;
mod users;

use crate::object::SHARED_IDENTITY;
use crate::service::Answer;
use crate::state::{Budget, State, Token, World};

/// An action of a person on the first object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum User {
    Delete,
    Cancel,
    Suspend,
    Resume,
    Orphan,
    Deadline,
    /// Takes it away.
    NoDeadline,
    /// Swaps a key of the workload, which CEL can't see.
    Workload,
    Retry(u8),
    /// A replace takes finalizer and annotations off.
    Strip,
    /// The same, of an object whose runID is written.
    StripKnown,
    /// Takes the finalizer off and deletes.
    Force,
    LoseStatus,
    /// Puts the schema's default in place of the status, but for what is written once.
    LoseRest,
    Scribble,
    /// Makes the key look as young as the edit.
    ForgeTime,
    ForgePlace,
    ForgeName,
    ForgeKey,
    /// An end with the outcome that someone else's run was not found.
    ForgeEnd,
    /// Creates an object by the name of one that was removed.
    Recreate,
    /// Creates another object in addition to the first.
    Second,
    /// The same, with a time of creation before the other's although it is created later.
    Elder,
    /// The same, with a higher priority.
    Urgent,
    /// A copy of the object by another name, as a restored backup makes it.
    Copy {
        status: bool,
    },
}

/// An action on token, Workspace or namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Turn {
    Expire,
    Rotate,
    RotateToOther,
    WorkspaceGoes,
    WorkspaceComes,
    /// It is deleted, and removed when no Run needs it.
    WorkspaceLeaves,
    /// It is created again at another base URL.
    WorkspaceMoves,
    Holds,
    Goes,
    Disallow,
    Allow,
    /// The ClusterWorkspace is the default no more.
    Unshared,
    Shared,
    /// `maxActiveRuns` of the Workspace is this now.
    Limit(u8),
}

/// A bounded part of the world.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each says of one thing whether it is in the world"
)]
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) spec: serde_json::Value,
    pub(crate) budget: Budget,
    pub(crate) users: &'static [User],
    pub(crate) turns: &'static [Turn],
    /// Wrong answers, in addition to lost ones.
    pub(crate) answers: &'static [Answer],
    /// Requests may be lost, late or doubled.
    pub(crate) network: bool,
    /// The service refuses the bytes.
    pub(crate) refuses: bool,
    /// Runs end well, badly, or are cancelled by somebody else; or only well.
    pub(crate) ends: bool,
    /// The service may lose a run.
    pub(crate) loses: bool,
    /// There is a default ClusterWorkspace, and no Workspace at first.
    pub(crate) shared: bool,
    /// `maxActiveRuns` of the Workspace at first.
    pub(crate) limit: Option<u8>,
}

/// No fault, and no action of a person.
pub(crate) const NONE: Budget = Budget {
    calls: 0,
    writes: 0,
    crashes: 0,
    lists: 0,
    leases: 0,
    users: 0,
    turns: 0,
    runs: 0,
    events: 0,
    moments: 0,
    minutes: 0,
    patience: 0,
    days: 0,
    busy: 0,
    one_place: false,
    one_word: false,
};

/// The smallest part of the world, without any event from outside.
pub(crate) const QUIET: Scenario = Scenario {
    name: "quiet",
    spec: serde_json::Value::Null,
    budget: NONE,
    users: &[],
    turns: &[],
    answers: &[],
    network: false,
    refuses: false,
    ends: false,
    loses: false,
    shared: false,
    limit: None,
};

fn scenario(name: &'static str, budget: Budget) -> Scenario {
    Scenario {
        name,
        budget,
        ..QUIET
    }
}

/// Every scenario; `full` has larger budgets.
pub(crate) fn all(full: bool) -> Vec<Scenario> {
    let more = u8::from(full);
    let all = [
        small::all(),
        faults::of_the_network(more),
        faults::of_answers(more),
        faults::of_runs(more),
        users::of_people(more),
        users::of_deadlines(),
        users::of_meddling(more),
    ];
    all.concat()
}

impl Scenario {
    pub(crate) fn begin(&self) -> State {
        let token = |identity| Token {
            identity,
            valid: true,
        };
        // The Workspace's own is the last.
        let shared = self.shared.then(|| token(SHARED_IDENTITY));
        let mut s = State {
            now: 0,
            live: [None, None],
            version: 0,
            procs: [None, None],
            started: 0,
            service: crate::state::Service {
                refuses: self.refuses,
                ..Default::default()
            },
            calls: Vec::new(),
            writes: Vec::new(),
            world: World {
                tokens: shared.into_iter().chain([token(0)]).collect(),
                workspace: (!self.shared).then_some(1),
                holds: false,
                leaving: false,
                allowed: true,
                shared: self.shared.then_some(true),
                limit: self.limit,
                highest: self.limit.filter(|_| self.budget.leases == 0),
            },
            left: self.budget,
            ghosts: Vec::new(),
            fair: None,
            broken: None,
        };
        let run = crate::object::Object::fresh(&self.spec, 1, 0);
        crate::cluster::create(&mut s, 0, run);
        crate::process::start(&mut s, 0);
        s
    }
}
