//! What may happen, and how often: each scenario bounds its own part of the world.

use serde_json::json;

use crate::service::Answer;
use crate::state::{Budget, State, World};

/// What a person does to the first object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum User {
    Delete,
    Cancel,
    Suspend,
    Resume,
    Orphan,
    Deadline,
    /// Swaps a key of the workload, which CEL can't see.
    Workload,
    Retry(u8),
    /// A replace takes finalizer and annotations off.
    Strip,
    /// The same, of an object whose runId is written.
    StripKnown,
    /// Takes the finalizer off and deletes.
    Force,
    LoseStatus,
    Scribble,
    /// Makes the key look as young as the edit.
    ForgeTime,
    ForgePlace,
    ForgeName,
    ForgeKey,
    /// An end that says that a run of somebody else was not found.
    ForgeEnd,
    /// Creates an object by the name of one that is gone.
    Recreate,
    /// Creates another object beside the first.
    Second,
    /// A copy of the object by another name, as a restored backup makes it.
    Copy {
        status: bool,
    },
}

/// What happens to token, Workspace and namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Turn {
    Expire,
    Rotate,
    RotateToOther,
    WorkspaceGoes,
    WorkspaceComes,
    /// It is deleted, and goes when no Run needs it.
    WorkspaceLeaves,
    /// It is created again at another base URL.
    WorkspaceMoves,
    Holds,
    Goes,
    Disallow,
    Allow,
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
    /// The answers that go wrong, beside those that are lost.
    pub(crate) answers: &'static [Answer],
    /// Requests may be lost, late or doubled.
    pub(crate) network: bool,
    /// The service refuses the bytes.
    pub(crate) refuses: bool,
    /// Runs end well, badly, or are cancelled by somebody else; or only well.
    pub(crate) ends: bool,
    /// The service may lose a run.
    pub(crate) loses: bool,
}

/// Nothing goes wrong, and nobody does anything.
pub(crate) const NONE: Budget = Budget {
    calls: 0,
    writes: 0,
    crashes: 0,
    leases: 0,
    users: 0,
    turns: 0,
    runs: 0,
    events: 0,
    moments: 0,
    minutes: 0,
    patience: 0,
    days: 0,
};

/// The smallest part of the world, in which nothing happens by itself.
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
        of_the_network(more),
        of_answers(more),
        of_runs(more),
        of_people(more),
        of_meddling(more),
    ];
    all.concat()
}

/// What goes wrong between operator and API server, and who leads.
fn of_the_network(more: u8) -> Vec<Scenario> {
    vec![
        Scenario {
            network: true,
            users: &[User::Delete, User::Cancel, User::Orphan, User::Suspend],
            ..scenario(
                "a crash and a lossy network",
                Budget {
                    calls: 1 + more,
                    crashes: 1,
                    users: 1,
                    minutes: 1,
                    ..NONE
                },
            )
        },
        Scenario {
            network: true,
            users: &[User::Delete],
            ..scenario(
                "a stale leader",
                Budget {
                    calls: 1,
                    crashes: 1,
                    leases: 1,
                    users: 1 + more,
                    minutes: more,
                    ..NONE
                },
            )
        },
        Scenario {
            users: &[User::Delete, User::Retry(1)],
            ..scenario(
                "writes that are lost or late",
                Budget {
                    writes: 2,
                    crashes: 1,
                    users: 1,
                    ..NONE
                },
            )
        },
        Scenario {
            network: true,
            users: &[User::Delete],
            ..scenario(
                "a stale leader whose writes are lost",
                Budget {
                    calls: 1,
                    writes: 1,
                    leases: 1,
                    users: 1,
                    ..NONE
                },
            )
        },
    ]
}

/// What the service answers.
fn of_answers(more: u8) -> Vec<Scenario> {
    use Answer::{
        Approval, Bare, Forbidden, GivenUp, Hopeless, TooMany, Unauthorized, Unavailable,
        Unreadable,
    };
    vec![
        Scenario {
            network: true,
            users: &[User::Delete, User::Retry(1), User::Cancel],
            answers: &[
                Approval,
                Bare { done: true },
                Forbidden,
                GivenUp,
                Hopeless { done: true },
                Hopeless { done: false },
                TooMany,
                Unauthorized,
                Unavailable { done: true },
                Unreadable,
            ],
            ..scenario(
                "every class of answer",
                Budget {
                    calls: 2,
                    crashes: more,
                    users: 1,
                    minutes: 1,
                    ..NONE
                },
            )
        },
        Scenario {
            refuses: true,
            network: true,
            users: &[User::Delete, User::Retry(1), User::Cancel],
            answers: &[Forbidden, Hopeless { done: false }],
            ..scenario(
                "refused for good",
                Budget {
                    calls: 2,
                    crashes: 1,
                    users: 2,
                    minutes: 1,
                    ..NONE
                },
            )
        },
        Scenario {
            network: true,
            users: &[User::Delete, User::Retry(1), User::Cancel],
            answers: &[Approval, Forbidden],
            ..scenario(
                "the key is forgotten",
                Budget {
                    calls: 2,
                    crashes: 1,
                    users: 1,
                    days: 1,
                    minutes: 1,
                    ..NONE
                },
            )
        },
    ]
}

/// What becomes of the run.
fn of_runs(more: u8) -> Vec<Scenario> {
    use Answer::{Approval, Ignored, NotFound, OtherRun};
    vec![
        Scenario {
            network: true,
            users: &[User::Delete, User::Cancel, User::Deadline],
            answers: &[Approval, Ignored, NotFound, OtherRun],
            ends: true,
            loses: true,
            ..scenario(
                "cancelled in vain",
                Budget {
                    calls: 1,
                    crashes: more,
                    users: 1,
                    runs: 1,
                    minutes: 2,
                    patience: 1,
                    ..NONE
                },
            )
        },
        Scenario {
            answers: &[NotFound],
            users: &[User::Delete],
            loses: true,
            ..scenario(
                "not found",
                Budget {
                    calls: 3,
                    crashes: 1,
                    users: 1,
                    runs: 1,
                    minutes: 3,
                    moments: 1,
                    ..NONE
                },
            )
        },
        Scenario {
            ends: true,
            users: &[User::Delete, User::Cancel],
            ..scenario(
                "events",
                Budget {
                    events: 4,
                    crashes: 1,
                    leases: 1,
                    users: 1,
                    runs: 1,
                    minutes: 1,
                    moments: 1,
                    ..NONE
                },
            )
        },
    ]
}

/// What people do to objects.
fn of_people(more: u8) -> Vec<Scenario> {
    vec![
        Scenario {
            network: true,
            users: &[User::Delete],
            turns: &[
                Turn::Expire,
                Turn::Rotate,
                Turn::RotateToOther,
                Turn::WorkspaceGoes,
                Turn::WorkspaceComes,
                Turn::WorkspaceLeaves,
                Turn::WorkspaceMoves,
                Turn::Holds,
                Turn::Goes,
                Turn::Disallow,
                Turn::Allow,
            ],
            ..scenario(
                "tokens and Workspaces",
                Budget {
                    calls: 1,
                    crashes: 1,
                    users: 1,
                    turns: 2,
                    ..NONE
                },
            )
        },
        Scenario {
            spec: json!({"suspend": true}),
            users: &[
                User::Resume,
                User::Suspend,
                User::Cancel,
                User::Delete,
                User::Orphan,
            ],
            ..scenario(
                "suspended",
                Budget {
                    crashes: 1,
                    users: 3,
                    runs: 1,
                    ..NONE
                },
            )
        },
        Scenario {
            spec: json!({"idempotencyKey": "mine"}),
            users: &[User::Second, User::Delete, User::Recreate],
            ..scenario(
                "one key for two",
                Budget {
                    crashes: 1,
                    users: 2 + more,
                    runs: 1,
                    ..NONE
                },
            )
        },
        Scenario {
            users: &[
                User::Delete,
                User::Copy { status: true },
                User::Copy { status: false },
                User::Cancel,
                User::Recreate,
            ],
            ..scenario(
                "restored and created again",
                Budget {
                    crashes: 1,
                    users: 3,
                    runs: 1,
                    ..NONE
                },
            )
        },
    ]
}

/// What people do to what is the operator's.
fn of_meddling(more: u8) -> Vec<Scenario> {
    vec![
        Scenario {
            users: &[
                User::Delete,
                User::StripKnown,
                User::LoseStatus,
                User::Force,
                User::Recreate,
            ],
            ..scenario(
                "stripped, lost and forced",
                Budget {
                    crashes: 1,
                    leases: 1,
                    users: 2 + more,
                    runs: 1,
                    ..NONE
                },
            )
        },
        Scenario {
            network: true,
            users: &[
                User::Delete,
                User::Strip,
                User::Force,
                User::Recreate,
                User::Scribble,
                User::Workload,
            ],
            ..scenario(
                "stripped while it is submitted",
                Budget {
                    calls: 1,
                    users: 2 + more,
                    minutes: 1,
                    ..NONE
                },
            )
        },
        Scenario {
            network: true,
            users: &[
                User::ForgeTime,
                User::ForgePlace,
                User::ForgeName,
                User::ForgeKey,
                User::ForgeEnd,
                User::Delete,
            ],
            turns: &[Turn::RotateToOther],
            ..scenario(
                "a forged intent",
                Budget {
                    calls: 1,
                    users: 2,
                    turns: 1,
                    days: 1,
                    ..NONE
                },
            )
        },
    ]
}

impl Scenario {
    pub(crate) fn begin(&self) -> State {
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
                tokens: vec![crate::state::Token {
                    identity: 0,
                    valid: true,
                }],
                workspace: Some(1),
                holds: false,
                leaving: false,
                allowed: true,
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
