//! Scenarios with faults that no person causes.

use super::{NONE, Scenario, User, scenario};
use crate::service::Answer;
use crate::state::Budget;

/// Faults between operator and API server, and changes of the leader.
pub(super) fn of_the_network(more: u8) -> Vec<Scenario> {
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
            users: &[User::Delete, User::Force, User::Orphan],
            ..scenario(
                "a list from the past",
                Budget {
                    calls: 1,
                    lists: 1 + more,
                    users: 2,
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

/// Answers of the service.
pub(super) fn of_answers(more: u8) -> Vec<Scenario> {
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

/// Ends of the run.
pub(super) fn of_runs(more: u8) -> Vec<Scenario> {
    use Answer::{Approval, Ignored, NotFound, OtherRun};
    vec![
        Scenario {
            network: true,
            users: &[User::Delete, User::Cancel, User::Deadline],
            answers: &[Approval, Ignored, NotFound, OtherRun],
            ends: true,
            loses: true,
            ..scenario(
                "cancelled without effect",
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
