//! Small parts of the world: each has one policy and one or two things that go wrong.

use serde_json::{Value, json};

use super::actions::Person;
use super::state::Budget;

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Beside a tick every two minutes.
    pub(crate) spec: Value,
    pub(crate) budget: Budget,
    pub(crate) people: &'static [Person],
    /// Two processes, each of which takes itself for the leader.
    pub(crate) two: bool,
}

/// A world of four minutes, so of two ticks, in which nothing goes wrong.
fn world(name: &'static str, spec: Value) -> Scenario {
    Scenario {
        name,
        spec,
        budget: Budget {
            minutes: 4,
            ..Budget::default()
        },
        people: &[],
        two: false,
    }
}

impl Scenario {
    fn with(mut self, change: impl FnOnce(&mut Budget)) -> Self {
        change(&mut self.budget);
        self
    }

    fn people(mut self, people: &'static [Person]) -> Self {
        self.people = people;
        self
    }

    fn two(mut self) -> Self {
        self.two = true;
        self
    }

    fn crash(self) -> Self {
        self.with(|b| b.crashes = 1)
    }

    fn unheard(self) -> Self {
        self.with(|b| b.unheard = 1)
    }

    fn minutes(self, minutes: u8) -> Self {
        self.with(|b| b.minutes = minutes)
    }
}

fn allow() -> Value {
    json!({"concurrencyPolicy": "Allow"})
}

fn forbid() -> Value {
    json!({"concurrencyPolicy": "Forbid"})
}

fn replace() -> Value {
    json!({"concurrencyPolicy": "Replace"})
}

fn again() -> Value {
    json!({"retryPolicy": {"limit": 1, "backoffSeconds": 60}})
}

pub(crate) fn all(full: bool) -> Vec<Scenario> {
    let mut all = [policies(), people(), leaders()].concat();
    if full {
        for scenario in &mut all {
            scenario.budget.minutes += 2;
            scenario.budget.crashes += 1;
        }
    }
    all
}

/// What the spec says of ticks that meet a Run, an outage or a failure.
fn policies() -> Vec<Scenario> {
    let short = json!({"startingDeadlineSeconds": 60});
    let late = json!({"concurrencyPolicy": "Allow", "startingDeadlineSeconds": 60});
    let latest = json!({"concurrencyPolicy": "Allow", "catchUp": "Latest"});
    let no_history = json!({
        "retryPolicy": {"limit": 1, "backoffSeconds": 60},
        "successfulRunsHistoryLimit": 0,
        "failedRunsHistoryLimit": 0,
    });
    let short_history = json!({
        "concurrencyPolicy": "Allow",
        "successfulRunsHistoryLimit": 1,
    });
    vec![
        world("schedule, allow", allow()).crash().unheard(),
        world("schedule, forbid", forbid()).crash().unheard(),
        world("schedule, forbid, deadline", short)
            .unheard()
            .minutes(5),
        world("schedule, replace", replace()).unheard(),
        world("schedule, replace, crash", replace()).crash(),
        world("schedule, retry", again())
            .unheard()
            .with(|b| b.fails = 2),
        world("schedule, retry, no history", no_history).with(|b| b.fails = 2),
        world("schedule, too late", late).crash().minutes(5),
        world("schedule, outage, latest", latest).crash().minutes(7),
        world("schedule, history", short_history).minutes(5),
        world("schedule, clock back", allow())
            .unheard()
            .minutes(5)
            .with(|b| b.back = 1),
    ]
}

/// What people do.
fn people() -> Vec<Scenario> {
    use Person::{
        DeletesLatestRun, DeletesRun, DeletesSchedule, Edits, LosesStatus, Resumes, Suspends,
        TakesName,
    };
    vec![
        world("schedule, status lost", forbid())
            .crash()
            .people(&[LosesStatus]),
        world("schedule, Run deleted", forbid())
            .unheard()
            .people(&[DeletesRun]),
        world("schedule, retry, Run deleted", again())
            .minutes(3)
            .with(|b| b.fails = 1)
            .people(&[DeletesLatestRun]),
        world("schedule, status lost, Run deleted", allow()).people(&[LosesStatus, DeletesRun]),
        world("schedule, deleted", forbid())
            .crash()
            .unheard()
            .people(&[DeletesSchedule]),
        world("schedule, suspended", forbid())
            .unheard()
            .people(&[Suspends, Resumes]),
        world("schedule, edited", forbid())
            .unheard()
            .people(&[Edits]),
        world("schedule, name taken", forbid())
            .crash()
            .people(&[TakesName]),
    ]
}

/// Two processes at the same time.
fn leaders() -> Vec<Scenario> {
    vec![
        world("schedule, two leaders", allow())
            .two()
            .minutes(3)
            .unheard(),
        world("schedule, two leaders, forbid", forbid()).two(),
        world("schedule, two leaders, replace", replace()).two(),
        world("schedule, two leaders, suspended", allow())
            .two()
            .minutes(3)
            .people(&[Person::Suspends]),
        world("schedule, two leaders, Run deleted", allow())
            .two()
            .minutes(3)
            .people(&[Person::DeletesRun]),
    ]
}
