//! Faults on request: which requests they meet, how often, and what they do.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::route::Operation;
use crate::stream_script::StreamScript;

/// One rule, as it is posted to `/_control/faults`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Fault {
    #[serde(default, rename = "match")]
    pub(crate) matches: Match,
    pub(crate) action: Action,
    /// Number of requests that it applies to; 0 is without end, until it is cleared.
    #[serde(default = "one")]
    pub(crate) times: u64,
    /// It ends so many milliseconds after it was added; without, only with `times`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) for_ms: Option<u64>,
    /// 0 to 1: the share of the matching requests that it meets.
    #[serde(default = "certain")]
    pub(crate) probability: f64,
    #[serde(default)]
    pub(crate) seed: u64,
}

/// The requests that it applies to: every given field must match. Or what there is to match of a request.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Match {
    pub(crate) operation: Option<Operation>,
    pub(crate) run_id: Option<String>,
    pub(crate) image: Option<String>,
}

/// The action. `execute` determines whether the request takes effect before the answer is altered.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub(crate) enum Action {
    /// Another answer: a problem document, or `body` as it is.
    Answer(Answer),
    /// The request takes effect; the connection is closed with no byte of an answer.
    DoThenLose,
    /// The connection is closed and nothing was done.
    LoseBefore,
    /// Silence, then the connection is closed.
    Hang {
        #[serde(default)]
        execute: bool,
        #[serde(default = "minute")]
        for_ms: u64,
    },
    /// The right answer, late. Without `execute` the effect is late too, and takes place even if the client
    /// has disconnected meanwhile.
    Delay {
        for_ms: u64,
        #[serde(default)]
        execute: bool,
    },
    HugeBody {
        bytes: usize,
    },
    /// `Content-Length` promises the whole body, half of it comes, the connection is closed.
    TruncatedBody,
    WrongContentType {
        content_type: String,
    },
    /// The right answer's first half, as if it were whole.
    InvalidJson,
    /// The right answer, changed by a JSON merge patch (RFC 7386).
    MergeBody {
        merge: Value,
    },
    Redirect {
        #[serde(default = "temporary_redirect")]
        status: u16,
        location: String,
    },
    /// An event stream that misbehaves.
    Stream(StreamScript),
}

/// Another answer; a problem's fields have fitting values unless they are given.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) code: Option<String>,
    pub(crate) retryable: Option<bool>,
    pub(crate) title: Option<String>,
    #[serde(default)]
    pub(crate) params: Map<String, Value>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Option<String>,
    pub(crate) content_type: Option<String>,
    #[serde(default)]
    pub(crate) execute: bool,
}

fn one() -> u64 {
    1
}
fn certain() -> f64 {
    1.0
}
fn minute() -> u64 {
    60_000
}
fn temporary_redirect() -> u16 {
    307
}

impl Match {
    fn fits(&self, request: &Self) -> bool {
        (self.operation.is_none() || self.operation == request.operation)
            && (self.run_id.is_none() || self.run_id == request.run_id)
            && (self.image.is_none() || self.image == request.image)
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rule {
    pub(crate) id: u64,
    #[serde(flatten)]
    fault: Fault,
    /// Requests that it met.
    fired: u64,
    #[serde(skip)]
    random: Rng,
    /// Time at which it ends.
    #[serde(skip)]
    until: Option<Instant>,
}

/// The rules in force, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct FaultBook {
    rules: Vec<Rule>,
    last_id: u64,
}

impl FaultBook {
    pub(crate) fn add(&mut self, fault: Fault) -> u64 {
        self.last_id += 1;
        let random = Rng::with_seed(fault.seed);
        let lasts = fault.for_ms.map(Duration::from_millis);
        let until = lasts.and_then(|lasts| Instant::now().checked_add(lasts));
        self.rules.push(Rule {
            id: self.last_id,
            fault,
            fired: 0,
            random,
            until,
        });
        self.last_id
    }

    /// The first rule that meets this request. Those behind it don't count the request.
    pub(crate) fn pick(&mut self, request: &Match) -> Option<(u64, Action)> {
        for rule in &mut self.rules {
            let over = rule.until.is_some_and(|until| Instant::now() >= until);
            let spent = over || rule.fault.times != 0 && rule.fired >= rule.fault.times;
            let fits = rule.fault.matches.fits(request);
            if fits && !spent && rule.random.f64() < rule.fault.probability {
                rule.fired += 1;
                return Some((rule.id, rule.fault.action.clone()));
            }
        }
        None
    }

    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Removes one rule, or all; returns how many.
    pub(crate) fn remove(&mut self, id: Option<u64>) -> usize {
        let before = self.rules.len();
        self.rules.retain(|rule| id.is_some_and(|id| rule.id != id));
        before - self.rules.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{FaultBook, Match};

    /// Whether each of so many requests is met.
    fn met(mut fault: Value, requests: usize) -> Vec<bool> {
        fault["action"] = json!({"type": "loseBefore"});
        let mut book = FaultBook::default();
        book.add(serde_json::from_value(fault).expect("a valid fault"));
        let request = Match::default();
        let requests = (0..requests).map(|_| book.pick(&request).is_some());
        requests.collect()
    }

    #[test]
    fn a_fault_applies_once_unless_told_otherwise_and_ends_with_its_time() {
        assert_eq!(met(json!({}), 2), [true, false]);
        assert_eq!(met(json!({"times": 0, "forMs": 60_000}), 2), [true, true]);
        assert_eq!(met(json!({"times": 0, "forMs": 0}), 1), [false]);
        assert_eq!(met(json!({"match": {"image": "i"}}), 1), [false]);
    }

    #[test]
    fn a_storm_repeats_with_its_seed() {
        let storm = |seed| met(json!({"times": 0, "probability": 0.5, "seed": seed}), 50);
        assert_eq!(storm(1), storm(1));
        assert_ne!(storm(1), storm(2));
    }
}
