//! Scenarios with actions of people, and with changes of Workspace and token.

use serde_json::json;

use super::{NONE, Scenario, Turn, User, scenario};
use crate::state::Budget;

/// Actions of people on objects.
#[expect(clippy::too_many_lines, reason = "a list of scenarios")]
pub(super) fn of_people(more: u8) -> Vec<Scenario> {
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
            users: &[User::Second, User::Elder, User::Delete, User::Recreate],
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
        // Not with a crash too: a write that outlives its process is not known to the next one (docs/limits.md).
        Scenario {
            spec: json!({"idempotencyKey": "mine"}),
            users: &[User::Second, User::Elder, User::Delete, User::Recreate],
            ..scenario(
                "one key for two, and a write that is late",
                Budget {
                    writes: 1,
                    users: 1 + more,
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
        Scenario {
            users: &[User::Retry(1), User::Copy { status: false }],
            ..scenario(
                "restored after a retry",
                Budget {
                    crashes: 1,
                    users: 2,
                    ..NONE
                },
            )
        },
    ]
}

/// Changes of a deadline.
pub(super) fn of_deadlines() -> Vec<Scenario> {
    vec![Scenario {
        spec: json!({"activeDeadlineSeconds": 60}),
        users: &[User::NoDeadline, User::Delete],
        ends: true,
        ..scenario(
            "a deadline that is taken away",
            Budget {
                crashes: 1,
                users: 1,
                runs: 1,
                minutes: 1,
                ..NONE
            },
        )
    }]
}

/// Actions of people on fields that belong to the operator.
pub(super) fn of_meddling(more: u8) -> Vec<Scenario> {
    vec![
        Scenario {
            users: &[
                User::Delete,
                User::StripKnown,
                User::LoseStatus,
                User::LoseRest,
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
