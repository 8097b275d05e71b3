//! The smallest worlds in which a rule of the design counts: without it each is wrong within some thousand states. The
//! larger ones show more, but are rarely searched to their end.

use serde_json::json;

use super::{QUIET, Scenario, Turn, User};
use crate::service::Answer;
use crate::state::Budget;

fn world(name: &'static str) -> Scenario {
    Scenario { name, ..QUIET }
}

impl Scenario {
    /// People do each of these things.
    fn people(mut self, users: &'static [User]) -> Self {
        self.users = users;
        self.budget.users = u8::try_from(users.len()).unwrap();
        self
    }

    /// One request is answered so.
    fn answered(mut self, answers: &'static [Answer]) -> Self {
        self.answers = answers;
        self.budget.calls = 1;
        self
    }

    /// One request is lost, late or doubled.
    fn lossy(mut self) -> Self {
        self.network = true;
        self.budget.calls = 1;
        self
    }

    /// This happens to token, Workspace or namespace.
    fn turned(mut self, turn: &'static [Turn]) -> Self {
        self.turns = turn;
        self.budget.turns = 1;
        self
    }

    /// So much else may happen.
    fn with(mut self, change: impl FnOnce(&mut Budget)) -> Self {
        change(&mut self.budget);
        self
    }

    fn of(mut self, spec: serde_json::Value) -> Self {
        self.spec = spec;
        self
    }
}

pub(super) fn all() -> Vec<Scenario> {
    [
        submissions(),
        records(),
        places(),
        choices(),
        runs(),
        deletions(),
        busy(),
        limits(),
    ]
    .concat()
}

/// The intent, the POST and its answer.
fn submissions() -> Vec<Scenario> {
    use Answer::{Anonymous, Bare, Forbidden, GivenUp, Hopeless, Unauthorized, Unreadable};
    use User::{Cancel, Copy, Delete, Retry, Second, Suspend};
    vec![
        world("quiet"),
        world("crash").with(|b| b.crashes = 1),
        world("deleted").people(&[Delete]),
        world("deleted, two leaders")
            .people(&[Delete])
            .with(|b| b.leases = 1),
        world("deleted, two leaders, a write lost")
            .people(&[Delete])
            .with(|b| (b.leases, b.writes) = (1, 1)),
        world("deleted, a call lost").people(&[Delete]).lossy(),
        world("deleted, 500")
            .people(&[Delete])
            .answered(&[Hopeless { done: true }]),
        world("deleted, a proxy's 403")
            .people(&[Delete])
            .answered(&[Bare { done: true }]),
        world("deleted, no runID")
            .people(&[Delete])
            .answered(&[Anonymous]),
        world("deleted, given up")
            .people(&[Delete])
            .answered(&[GivenUp]),
        world("created again, a write late")
            .people(&[Delete, User::Recreate])
            .with(|b| (b.writes, b.runs) = (1, 1)),
        world("401").answered(&[Unauthorized]),
        world("500").answered(&[Hopeless { done: false }]),
        world("five unreadable answers")
            .answered(&[Unreadable])
            .with(|b| (b.calls, b.minutes) = (5, 4)),
        world("403, crash")
            .answered(&[Forbidden])
            .with(|b| b.crashes = 1),
        world("403, retried")
            .people(&[Retry(1)])
            .answered(&[Forbidden]),
        Scenario {
            refuses: true,
            ..world("bytes refused, crash").with(|b| b.crashes = 1)
        },
        world("one code for both conflicts")
            .lossy()
            .with(|b| b.one_word = true),
        world("key forgotten").lossy().with(|b| b.days = 1),
        world("one key")
            .of(json!({"idempotencyKey": "nightly"}))
            .people(&[Second]),
        world("copy").people(&[Copy { status: false }]),
        world("copy with status").people(&[Copy { status: true }]),
        world("suspended, a call lost").people(&[Suspend]).lossy(),
        world("cancelled").people(&[Cancel]),
    ]
}

/// Calls that wait for a place, and objects that are forced meanwhile.
fn busy() -> Vec<Scenario> {
    use User::{Cancel, Delete, Force, Recreate, Second, Strip, Suspend};
    let busy = |name, calls| world(name).with(|b| (b.one_place, b.busy) = (true, calls));
    vec![
        busy("busy, deleted", 2).people(&[Delete]),
        busy("busy, suspended, a call lost", 1)
            .people(&[Suspend])
            .lossy(),
        busy("busy, cancelled and forced", 2).people(&[Cancel, Force]),
        busy("busy, two Runs, deleted", 0).people(&[Second, Delete]),
        busy("busy, stripped, deleted and created again", 1).people(&[Strip, Delete, Recreate]),
        busy("busy, Workspace held", 1).turned(&[Turn::Holds]),
        busy("busy, crash", 1).with(|b| (b.crashes, b.leases) = (1, 1)),
        world("forced, created again, listed")
            .people(&[Force, Recreate])
            .lossy()
            .with(|b| (b.lists, b.runs) = (1, 1)),
        world("stripped, deleted, created again, listed")
            .people(&[Strip, Delete, Recreate])
            .lossy()
            .with(|b| b.lists = 1),
    ]
}

/// `maxActiveRuns` holds one of two Runs.
fn limits() -> Vec<Scenario> {
    use User::{Cancel, Delete, Elder, Retry, Second, Suspend, Urgent};
    let limit = |name, limit| Scenario {
        limit: Some(limit),
        ..world(name)
    };
    vec![
        limit("limit, ended", 1)
            .people(&[Second])
            .with(|b| b.runs = 1),
        limit("limit, crash", 1)
            .people(&[Second])
            .with(|b| b.crashes = 1),
        limit("limit, more urgent, crash", 1)
            .people(&[Urgent])
            .with(|b| (b.crashes, b.runs) = (1, 1)),
        limit("limit, elder, suspended", 1).people(&[Suspend, Elder, User::Resume]),
        limit("limit, a write lost", 1)
            .people(&[Second])
            .with(|b| b.writes = 1),
        limit("limit, suspended, a write lost", 1)
            .people(&[Second, Suspend])
            .with(|b| b.writes = 1),
        limit("limit, resumed, disallowed, a write lost", 1)
            .people(&[Suspend, Second, User::Resume])
            .turned(&[Turn::Disallow, Turn::Allow])
            .with(|b| (b.writes, b.turns) = (1, 2)),
        limit("limit, crash, a write lost", 1)
            .people(&[Second])
            .with(|b| (b.crashes, b.writes) = (1, 1)),
        limit("limit, a call lost", 1).people(&[Second]).lossy(),
        limit("limit, deleted", 1).people(&[Second, Delete]),
        limit("limit, cancelled", 1).people(&[Second, Cancel]),
        limit("limit, 403, retried", 1)
            .people(&[Second, Retry(1)])
            .answered(&[Answer::Forbidden]),
        limit("limit, listed", 1)
            .people(&[Second])
            .with(|b| (b.lists, b.runs) = (1, 1)),
        limit("limit raised", 1)
            .people(&[Second])
            .turned(&[Turn::Limit(2)]),
        limit("limit lowered", 2)
            .people(&[Second])
            .turned(&[Turn::Limit(0)]),
        limit("limit 0", 0).people(&[Second, Delete]),
        limit("limit, held", 1)
            .people(&[Second])
            .turned(&[Turn::Holds]),
        limit("limit, Workspace deleted", 1)
            .people(&[Second])
            .turned(&[Turn::WorkspaceLeaves]),
        limit("limit, two leaders", 1)
            .people(&[Second])
            .with(|b| b.leases = 1),
    ]
}

/// What people edit.
fn records() -> Vec<Scenario> {
    use User::{
        Delete, ForgeEnd, ForgeKey, ForgeName, ForgePlace, ForgeTime, LoseStatus, Scribble, Strip,
        StripKnown, Workload,
    };
    vec![
        world("workload changed").people(&[Workload]),
        world("intent unreadable, crash")
            .people(&[Scribble, Delete])
            .with(|b| b.crashes = 1),
        world("intent stripped, a call lost")
            .people(&[Strip, Delete])
            .lossy(),
        world("intent stripped, runID known").people(&[StripKnown]),
        world("forged time")
            .people(&[ForgeTime])
            .lossy()
            .with(|b| b.days = 1),
        world("forged place")
            .people(&[ForgePlace])
            .lossy()
            .turned(&[Turn::RotateToOther]),
        world("forged name").people(&[ForgeName]),
        world("forged key").people(&[ForgeKey]).lossy(),
        world("forged end, crash")
            .people(&[ForgeEnd, Delete])
            .with(|b| b.crashes = 1),
        world("status lost")
            .people(&[LoseStatus])
            .with(|b| (b.runs, b.minutes) = (1, 1)),
    ]
}

/// Workspace, token and namespace.
fn places() -> Vec<Scenario> {
    vec![
        world("namespace disallowed").turned(&[Turn::Disallow]),
        world("held").turned(&[Turn::Holds]),
        world("held, a call lost").lossy().turned(&[Turn::Holds]),
        world("Workspace deleted").turned(&[Turn::WorkspaceLeaves]),
        world("Workspace moved").turned(&[Turn::WorkspaceMoves]),
        world("token of another").turned(&[Turn::RotateToOther]),
        world("token expired").turned(&[Turn::Expire]),
    ]
}

/// A Run that names no Workspace: a Workspace `default` appears, or the default ClusterWorkspace changes.
fn choices() -> Vec<Scenario> {
    use Turn::{Shared, Unshared, WorkspaceComes, WorkspaceGoes, WorkspaceLeaves};
    let world = |name, turns: &'static [Turn]| {
        let world = Scenario {
            name,
            shared: true,
            ..QUIET
        }
        .turned(turns);
        world.with(|b| b.turns = u8::try_from(turns.len()).unwrap())
    };
    vec![
        world("default appears, a call lost, crash", &[WorkspaceComes])
            .lossy()
            .with(|b| b.crashes = 1),
        world(
            "default appears, two leaders, a write lost",
            &[WorkspaceComes],
        )
        .with(|b| (b.leases, b.writes) = (1, 1)),
        world("default appears, 403, retried", &[WorkspaceComes])
            .people(&[User::Retry(1)])
            .answered(&[Answer::Forbidden]),
        world(
            "default appears and goes, deleted",
            &[WorkspaceComes, WorkspaceGoes],
        )
        .people(&[User::Delete])
        .with(|b| b.crashes = 1),
        world(
            "default appears and leaves, two leaders",
            &[WorkspaceComes, WorkspaceLeaves],
        )
        .with(|b| b.leases = 1),
        world(
            "default ClusterWorkspace changes, crash",
            &[Unshared, Shared],
        )
        .people(&[User::Delete])
        .with(|b| b.crashes = 1),
        world("default ClusterWorkspace, forged name", &[WorkspaceComes])
            .people(&[User::ForgeName]),
        world("default ClusterWorkspace, stripped", &[WorkspaceComes]).people(&[User::Strip]),
    ]
}

/// The run at the service, its mirror and its end.
fn runs() -> Vec<Scenario> {
    use Answer::{NotFound, OtherRun};
    vec![
        world("end").with(|b| b.runs = 1),
        world("end, two leaders").with(|b| (b.leases, b.runs, b.minutes) = (1, 1, 1)),
        world("two events").with(|b| (b.events, b.runs, b.minutes) = (2, 1, 1)),
        world("three events").with(|b| (b.events, b.runs, b.moments) = (3, 1, 1)),
        world("another runID")
            .answered(&[OtherRun])
            .with(|b| b.minutes = 1),
        world("not found within a minute")
            .answered(&[NotFound])
            .with(|b| (b.calls, b.minutes, b.moments) = (3, 1, 2)),
        world("not found for minutes")
            .answered(&[NotFound])
            .with(|b| (b.calls, b.minutes) = (3, 3)),
        world("deadline taken away, crash")
            .of(json!({"activeDeadlineSeconds": 60}))
            .people(&[User::NoDeadline])
            .with(|b| (b.crashes, b.minutes) = (1, 1)),
    ]
}

/// Cancellation and deletion of a run that is known.
fn deletions() -> Vec<Scenario> {
    use Answer::{Ignored, NotFound, Unavailable};
    use User::{Cancel, Delete, Force, Orphan};
    vec![
        world("cancelled, a minute")
            .people(&[Cancel])
            .with(|b| b.minutes = 1),
        world("cancelled, two leaders")
            .people(&[Cancel])
            .with(|b| b.leases = 1),
        world("cancelled, 503")
            .people(&[Cancel])
            .answered(&[Unavailable { done: false }])
            .with(|b| b.minutes = 2),
        world("orphaned").people(&[Orphan, Delete]),
        world("cancelled and deleted, five minutes")
            .people(&[Cancel, Delete])
            .with(|b| b.patience = 1),
        world("deleted, cancel ignored")
            .people(&[Delete])
            .answered(&[Ignored]),
        world("deleted, cancel ignored, five minutes")
            .people(&[Delete])
            .answered(&[Ignored])
            .with(|b| b.patience = 1),
        world("deleted, not found")
            .people(&[Delete])
            .answered(&[NotFound]),
        world("removed by force").people(&[Force]),
    ]
}
