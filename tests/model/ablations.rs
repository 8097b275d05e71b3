//! Each rule of the design, and each guard outside of it, taken away in turn: the model must fail, in the smallest
//! part of the world that shows it.

use std::collections::HashSet;
use std::sync::{MutexGuard, PoisonError};

use run_operator::decide::invariants::{Rule, without};
use serde_json::json;

use crate::guards::{Fence, Fences};
use crate::model::{self, Found};
use crate::scenarios::{QUIET, Scenario, Turn, User};
use crate::service::Answer;
use crate::state::Budget;
use test_support::figures::Figures;

/// Distinct states after which a rule counts as not missed.
const ENOUGH: usize = 200_000;

/// Reason for which the model can't detect the removal of a rule. Tests of `policy` detect each.
fn unseen(rule: Rule) -> Option<&'static str> {
    (rule == Rule::NotFoundApart).then_some(
        "in the model a poll is a minute, so that nothing is asked sooner after it was told so, but for an object that \
         is being cancelled, deleted or gone, and none that is gone comes back",
    )
}

fn budget(change: impl FnOnce(&mut Budget)) -> Scenario {
    let mut scenario = QUIET;
    change(&mut scenario.budget);
    scenario
}

/// People do these things.
fn people(users: &'static [User]) -> Scenario {
    let count = u8::try_from(users.len()).unwrap();
    Scenario {
        users,
        ..budget(|b| b.users = count)
    }
}

impl Scenario {
    /// One request is answered so.
    fn answered(mut self, answers: &'static [Answer]) -> Self {
        self.answers = answers;
        self.budget.calls += 1;
        self
    }

    /// One request is lost, late or doubled.
    fn lossy(mut self) -> Self {
        self.network = true;
        self.budget.calls += 1;
        self
    }

    /// This happens to token, Workspace or namespace.
    fn turned(mut self, turns: &'static [Turn]) -> Self {
        self.turns = turns;
        self.budget.turns = 1;
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Budget)) -> Self {
        change(&mut self.budget);
        self
    }
}

/// The smallest part of the world in which the rule is missed.
#[allow(clippy::too_many_lines, reason = "one line a rule: a table")]
fn scenario(rule: Rule) -> Scenario {
    use Answer::{
        Anonymous, Bare, Forbidden, GivenUp, Hopeless, Ignored, NotFound, OtherRun, Unauthorized,
        Unavailable, Unreadable,
    };
    use User::{Cancel, Copy, Delete, Force, Orphan, Retry, Second, StripKnown};
    match rule {
        Rule::FinalizerFirst | Rule::Patience => people(&[Delete]),
        Rule::OwnerPosts => budget(|b| b.crashes = 1),
        Rule::AnsweredWrite => people(&[Delete]).with(|b| (b.leases, b.writes) = (1, 1)),
        Rule::TakeoverWithdraws => people(&[Delete]).with(|b| b.leases = 1),
        Rule::RetryOnce | Rule::RetryWithdraws | Rule::RefusalOfEpoch => {
            people(&[Retry(1)]).answered(&[Forbidden])
        }
        Rule::ForeignWaits | Rule::ForeignFrees => people(&[Copy { status: false }]),
        Rule::ForeignStatus => people(&[Copy { status: true }]),
        Rule::UnreadableWaits => people(&[User::Scribble, Delete]).with(|b| b.crashes = 1),
        Rule::IntentRemembered => people(&[User::Strip, Delete]).lossy(),
        Rule::AgeAsWritten => people(&[User::ForgeTime]).lossy().with(|b| b.days = 1),
        Rule::PlaceAsWritten => people(&[User::ForgePlace])
            .lossy()
            .turned(&[Turn::RotateToOther]),
        Rule::SameKey => people(&[User::ForgeKey]).lossy(),
        Rule::EndDoubted => people(&[User::ForgeEnd, Delete]).with(|b| b.crashes = 1),
        Rule::KeyInUse => Scenario {
            spec: json!({"idempotencyKey": "nightly"}),
            ..people(&[Second])
        },
        Rule::NamespaceAllowed => QUIET.turned(&[Turn::Disallow]),
        Rule::HoldsFirst => QUIET.turned(&[Turn::Holds]),
        Rule::HoldsOnlyFirst => QUIET.lossy().turned(&[Turn::Holds]),
        Rule::AwaitedGoOn | Rule::WorkspaceOutlives => QUIET.turned(&[Turn::WorkspaceLeaves]),
        Rule::SameWorkspace => people(&[User::ForgeName]),
        Rule::SameBaseUrl => QUIET.turned(&[Turn::WorkspaceMoves]),
        Rule::SameIdentity => QUIET.turned(&[Turn::RotateToOther]),
        Rule::VerifiedToken => QUIET.turned(&[Turn::Expire]),
        Rule::SameBytes => people(&[User::Workload]),
        Rule::KeyRetention => QUIET.lossy().with(|b| b.days = 1),
        Rule::SoleOwner | Rule::RefusalKept | Rule::DoubtAsksAgain => {
            QUIET.answered(&[Forbidden]).with(|b| b.crashes = 1)
        }
        Rule::AnswerProves | Rule::DoubtHolds => people(&[Delete]).lossy(),
        Rule::RefusalProves => people(&[Delete]).answered(&[Hopeless { done: true }]),
        Rule::ProblemProves => people(&[Delete]).answered(&[Bare { done: true }]),
        Rule::ConflictProvesNothing | Rule::LoneConflict => {
            QUIET.lossy().with(|b| b.one_word = true)
        }
        Rule::GivenUpProvesNothing => people(&[Delete]).answered(&[GivenUp]),
        Rule::HopelessIsFinal => QUIET.answered(&[Hopeless { done: false }]),
        Rule::ViolationStalls => QUIET
            .answered(&[Unreadable])
            .with(|b| (b.calls, b.minutes) = (5, 4)),
        Rule::NewSession => QUIET.answered(&[Unauthorized]),
        Rule::RunIdConflict => QUIET.answered(&[OtherRun]).with(|b| b.minutes = 1),
        Rule::Overtaken => people(&[Cancel]).with(|b| b.leases = 1),
        Rule::EndKept => people(&[User::LoseStatus]).with(|b| (b.runs, b.minutes) = (1, 1)),
        Rule::CancelOnce => people(&[Cancel]).with(|b| b.minutes = 1),
        Rule::LookAfterCancel => people(&[Cancel])
            .answered(&[Unavailable { done: false }])
            .with(|b| b.minutes = 2),
        Rule::UnreadableProvesNothing => people(&[Delete]).answered(&[Anonymous]),
        Rule::BytesRefused => Scenario {
            refuses: true,
            ..budget(|b| b.crashes = 1)
        },
        Rule::SuspendTooLate => people(&[User::Suspend]).lossy(),
        Rule::CancelUnsubmitted => people(&[Cancel]),
        Rule::Mended => people(&[StripKnown]),
        Rule::CursorWaits => budget(|b| (b.events, b.runs, b.minutes) = (2, 1, 1)),
        Rule::ReplayOnce => budget(|b| (b.events, b.runs, b.moments) = (3, 1, 1)),
        Rule::NotFoundThrice => QUIET
            .answered(&[NotFound])
            .with(|b| (b.calls, b.minutes, b.moments) = (3, 1, 2)),
        Rule::DeniedKept => QUIET
            .answered(&[NotFound])
            .with(|b| (b.calls, b.minutes) = (3, 3)),
        Rule::DeadlineStays => Scenario {
            spec: json!({"activeDeadlineSeconds": 60}),
            ..people(&[User::NoDeadline]).with(|b| (b.crashes, b.minutes) = (1, 1))
        },
        Rule::Terminal => budget(|b| b.runs = 1),
        Rule::Orphan => people(&[Orphan, Delete]),
        Rule::CancelAgain => people(&[Delete]).answered(&[Ignored]),
        Rule::SeenCancelling => people(&[Delete])
            .answered(&[Ignored])
            .with(|b| b.patience = 1),
        Rule::PatienceFromDeletion => people(&[Cancel, Delete]).with(|b| b.patience = 1),
        Rule::CancelDenies | Rule::GetDenies => people(&[Delete]).answered(&[NotFound]),
        Rule::VanishedCancelled => people(&[Force]),
        _ => QUIET,
    }
}

/// The scenario for a guard outside of `decide`.
fn scenario_of(fence: Fence) -> Scenario {
    use User::{Delete, Recreate};
    match fence {
        Fence::StatusVersion | Fence::OwnWrites => {
            budget(|b| (b.leases, b.runs, b.minutes) = (1, 1, 1))
        }
        Fence::IntentVersion => people(&[Delete]).with(|b| (b.leases, b.writes) = (1, 1)),
        Fence::ReleaseVersion => people(&[Delete]).with(|b| (b.leases, b.writes) = (1, 1)),
        Fence::Uid => people(&[Delete, Recreate]).with(|b| (b.writes, b.runs) = (1, 1)),
        Fence::Session => QUIET.turned(&[Turn::RotateToOther]),
    }
}

fn alone() -> MutexGuard<'static, ()> {
    crate::ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn row(name: &str, says: &str, found: &Found) -> Vec<String> {
    let (seen, length) = match &found.violation {
        Some(wrong) => (wrong.what.says(), wrong.length.to_string()),
        None => ("not missed", "–".to_owned()),
    };
    [name, says, seen, &length, &found.states.to_string()]
        .map(str::to_owned)
        .to_vec()
}

const HEAD: [&str; 5] = [
    "taken away",
    "what it says",
    "what breaks",
    "steps to it",
    "states searched",
];

#[test]
fn without_any_one_of_its_rules_the_model_fails() {
    let _alone = alone();
    let only = std::env::var("RUN_OPERATOR_WITHOUT").unwrap_or_default();
    let (mut rows, mut unmissed, mut apart) = (Vec::new(), Vec::new(), Vec::new());
    for rule in Rule::ALL.iter().filter(|r| r.name().contains(&only)) {
        if let Some(why) = unseen(*rule) {
            apart.push([rule.name(), rule.says(), why].map(str::to_owned).to_vec());
            continue;
        }
        without(Some(*rule));
        let found = model::check(scenario(*rule), Fences::default(), 2, ENOUGH);
        without(None);
        if found.violation.is_none() {
            unmissed.push(rule.name());
        }
        let row = row(rule.name(), rule.says(), &found);
        eprintln!("{}", row.join(" | "));
        if let Some(wrong) = found.violation.filter(|_| !only.is_empty()) {
            eprintln!("{}", wrong.trace.join("\n"));
        }
        rows.push(row);
    }
    for fence in Fence::ALL.iter().filter(|f| f.name().contains(&only)) {
        if *fence == Fence::OwnWrites {
            let why = "it saves writes that would be refused: the version that each names guards the rest";
            apart.push(
                [fence.name(), fence.says(), why]
                    .map(str::to_owned)
                    .to_vec(),
            );
            continue;
        }
        let found = model::check(scenario_of(*fence), Fences(Some(*fence)), 2, ENOUGH);
        if found.violation.is_none() {
            unmissed.push(fence.name());
        }
        let row = row(fence.name(), fence.says(), &found);
        eprintln!("{}", row.join(" | "));
        rows.push(row);
    }
    Figures::new("rules.model")
        .row("Rules and guards taken away one at a time", rows.len())
        .row("Missed by the model", rows.len() - unmissed.len())
        .row("Rules and guards that the model can't miss", apart.len())
        .table(
            "Each rule taken away, and what the model says to it",
            &HEAD,
            rows,
        )
        .table(
            "What the model can't miss, and tests of `policy` do",
            &["rule", "what it says", "why"],
            apart,
        )
        .record();
    assert!(unmissed.is_empty(), "nothing misses {unmissed:?}");
}

/// The same small worlds with every rule in force: else a failure would prove nothing about the rule.
#[test]
fn with_all_rules_the_model_passes_in_every_ablation_scenario() {
    let _alone = alone();
    let worlds = Rule::ALL.iter().filter(|r| unseen(**r).is_none());
    let worlds = worlds.map(|rule| (rule.name(), scenario(*rule)));
    let fences = Fence::ALL.iter().map(|f| (f.name(), scenario_of(*f)));
    let mut seen = HashSet::new();
    for (name, world) in worlds.chain(fences) {
        if !seen.insert(format!("{world:?}")) {
            continue;
        }
        let found = model::check(world, Fences::default(), 2, ENOUGH);
        if let Some(wrong) = found.violation {
            panic!("{name}: {:?}\n{}", wrong.what, wrong.trace.join("\n"));
        }
    }
}
