//! The plan of a run: its states in order, and the time that it stays in each.
//!
//! The service's pacing is the default; `workload.simulate` changes it for one run.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::Value;

use crate::problem::Problem;

/// Milliseconds, as a duration or since the Unix epoch.
pub(crate) type Millis = u64;

pub(crate) const QUEUED: &str = "queued";
pub(crate) const PROVISIONING: &str = "provisioning";
pub(crate) const RUNNING: &str = "running";
pub(crate) const SUCCEEDED: &str = "succeeded";
pub(crate) const FAILED: &str = "failed";
pub(crate) const CANCELLING: &str = "cancelling";
pub(crate) const CANCELLED: &str = "cancelled";

/// A terminal state: a run in it changes no more without control, and can't be cancelled.
pub(crate) fn is_terminal(state: &str) -> bool {
    [SUCCEEDED, FAILED, CANCELLED].contains(&state)
}

/// Durations of a run's states, in milliseconds, unless its workload sets others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pacing {
    pub(crate) queue: Millis,
    pub(crate) provision: Millis,
    pub(crate) run: Millis,
    pub(crate) cancel: Millis,
}

/// The next step, and its delay after the step before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) wait: Millis,
    pub(crate) does: Does,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Does {
    Enter(String),
    Log(String),
}

/// A run's reaction to a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum OnCancel {
    /// `cancelling`, then `cancelled`.
    #[default]
    Confirm,
    /// The first is accepted and lost; the next is confirmed.
    IgnoreFirst,
    /// `cancelling`, and no end.
    Stuck,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) first: String,
    pub(crate) steps: VecDeque<Step>,
    pub(crate) on_cancel: OnCancel,
    pub(crate) cancel_time: Millis,
    /// The run's id, when the workload asks for one.
    pub(crate) run_id: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Outcome {
    Succeeded,
    Failed,
    /// Stays in the last state until it is cancelled.
    Never,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Stay {
    Name(String),
    #[serde(rename_all = "camelCase")]
    Timed {
        state: String,
        for_ms: u32,
    },
}

/// `workload.simulate`, checked strictly: a misspelt field is a 422, not a run that deviates from its
/// manifest.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Simulate {
    outcome: Option<Outcome>,
    run_time_ms: Option<u32>,
    cancel_time_ms: Option<u32>,
    states: Option<Vec<Stay>>,
    log_events: u32,
    cancel: OnCancel,
    run_id: Option<String>,
}

impl Plan {
    /// The plan of a run with this workload.
    pub(crate) fn of(workload: &Value, pacing: Pacing) -> Result<Self, Problem> {
        let simulate = match workload.get("simulate") {
            None => Simulate::default(),
            Some(value) => Simulate::deserialize(value)
                .map_err(|error| Problem::invalid_field("workload.simulate", error.to_string()))?,
        };
        let stays = simulate.stays(pacing);
        let end = match (simulate.outcome, &simulate.states) {
            (Some(Outcome::Never), _) | (None, Some(_)) => None,
            (Some(Outcome::Failed), _) => Some(FAILED),
            (Some(Outcome::Succeeded), _) | (None, None) => Some(SUCCEEDED),
        };
        let first = stays
            .first()
            .map_or_else(|| QUEUED.to_owned(), |stay| stay.0.clone());
        Ok(Self {
            first,
            steps: steps(&stays, end, simulate.log_events),
            on_cancel: simulate.cancel,
            cancel_time: simulate.cancel_time_ms.map_or(pacing.cancel, Millis::from),
            run_id: simulate.run_id,
        })
    }
}

impl Simulate {
    /// The states before the end, each with its length.
    fn stays(&self, pacing: Pacing) -> Vec<(String, Millis)> {
        match &self.states {
            Some(states) => states
                .iter()
                .map(|stay| match stay {
                    Stay::Name(state) => (state.clone(), pacing.queue),
                    Stay::Timed { state, for_ms } => (state.clone(), Millis::from(*for_ms)),
                })
                .collect(),
            None => vec![
                (QUEUED.to_owned(), pacing.queue),
                (PROVISIONING.to_owned(), pacing.provision),
                (
                    RUNNING.to_owned(),
                    self.run_time_ms.map_or(pacing.run, Millis::from),
                ),
            ],
        }
    }
}

/// Turns stays into steps. Log events are spread evenly over the last stay.
fn steps(stays: &[(String, Millis)], end: Option<&str>, log_events: u32) -> VecDeque<Step> {
    let mut steps = VecDeque::new();
    let enter = |wait, state: &str| Step {
        wait,
        does: Does::Enter(state.to_owned()),
    };
    for pair in stays.windows(2) {
        if let [(_, length), (next, _)] = pair {
            steps.push_back(enter(*length, next));
        }
    }
    let length = stays.last().map_or(0, |stay| stay.1);
    let gap = length / (Millis::from(log_events) + 1);
    for number in 1..=log_events {
        steps.push_back(Step {
            wait: gap,
            does: Does::Log(format!("step {number} of {log_events}")),
        });
    }
    if let Some(end) = end {
        steps.push_back(enter(length - gap * Millis::from(log_events), end));
    }
    steps
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Does, Pacing, Plan, Step};

    const PACING: Pacing = Pacing {
        queue: 10,
        provision: 20,
        run: 100,
        cancel: 5,
    };

    #[test]
    fn a_workload_chooses_its_outcome_and_pace() {
        let workload = json!({"simulate": {"outcome": "failed", "runTimeMs": 90, "logEvents": 2}});
        let plan = Plan::of(&workload, PACING).expect("a valid workload");
        let mut at = 0;
        let mut seen = vec![format!("0 {}", plan.first)];
        for Step { wait, does } in plan.steps {
            at += wait;
            let (Does::Enter(text) | Does::Log(text)) = does;
            seen.push(format!("{at} {text}"));
        }
        let expected = [
            "0 queued",
            "10 provisioning",
            "30 running",
            "60 step 1 of 2",
            "90 step 2 of 2",
            "120 failed",
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_misspelt_simulate_field_is_refused_by_name() {
        let misspelt = json!({"simulate": {"outcom": "failed"}});
        let problem = Plan::of(&misspelt, PACING).expect_err("a misspelt field");
        assert_eq!(problem.params["field"], "workload.simulate");
        let title = problem.title;
        assert!(title.contains("unknown field `outcom`"), "{title}");
    }
}
