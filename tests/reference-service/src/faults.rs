//! Faults on request: which requests they meet, how often, and what they do.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::problem::Problem;
use crate::random::Random;
use crate::route::Operation;
use crate::stream_script::StreamScript;

/// No fault holds a request longer than this, in milliseconds.
pub(crate) const MAX_WAIT: u64 = 600_000;
const MAX_HUGE_BODY: u64 = 1 << 30;

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

/// The requests that it applies to: every given field must match.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Match {
    pub(crate) operation: Option<Operation>,
    /// Number of the first matching request, counted from 1 since the rule was added.
    pub(crate) nth: Option<u64>,
    pub(crate) run_id: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) image: Option<String>,
    /// A token, or its fingerprint.
    #[serde(skip_serializing)]
    pub(crate) token: Option<String>,
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
    Answer {
        status: u16,
        #[serde(default)]
        code: Option<String>,
        #[serde(default)]
        retryable: Option<bool>,
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        params: Map<String, Value>,
        #[serde(default)]
        headers: BTreeMap<String, String>,
        #[serde(default)]
        body: Option<String>,
        #[serde(default)]
        content_type: Option<String>,
        #[serde(default)]
        execute: bool,
    },
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
        bytes: u64,
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
    /// The right answer in small pieces.
    SlowDrip {
        chunk_bytes: usize,
        every_ms: u64,
    },
    /// An event stream that misbehaves.
    Stream(StreamScript),
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

impl Fault {
    pub(crate) fn check(&self) -> Result<(), Problem> {
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(Problem::invalid_field("probability", "must be 0 to 1"));
        }
        if self.matches.nth == Some(0) {
            return Err(Problem::invalid_field("match.nth", "counts from 1"));
        }
        self.action.check()
    }
}

impl Action {
    fn check(&self) -> Result<(), Problem> {
        let refuse = |field: &str, reason: String| Err(Problem::invalid_field(field, reason));
        match self {
            Self::Answer { status, .. } | Self::Redirect { status, .. }
                if !(200..=599).contains(status) =>
            {
                refuse("action.status", "must be 200 to 599".to_owned())
            }
            Self::Hang { for_ms, .. }
            | Self::Delay { for_ms, .. }
            | Self::SlowDrip {
                every_ms: for_ms, ..
            } if *for_ms > MAX_WAIT => refuse("action", format!("waits {MAX_WAIT} ms at most")),
            Self::HugeBody { bytes } if *bytes > MAX_HUGE_BODY => {
                refuse("action.bytes", format!("must be {MAX_HUGE_BODY} at most"))
            }
            Self::SlowDrip { chunk_bytes: 0, .. } => {
                refuse("action.chunkBytes", "must be 1 at least".to_owned())
            }
            Self::Stream(script) => script.check(),
            _ => Ok(()),
        }
    }
}

/// The properties of a request that a rule can match.
#[derive(Debug, Default)]
pub(crate) struct Target {
    pub(crate) operation: Option<Operation>,
    pub(crate) run_id: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) image: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) fingerprint: Option<String>,
}

impl Match {
    fn fits(&self, target: &Target) -> bool {
        let fits =
            |wanted: &Option<String>, given: &Option<String>| wanted.is_none() || wanted == given;
        (self.operation.is_none() || self.operation == target.operation)
            && fits(&self.run_id, &target.run_id)
            && fits(&self.key, &target.key)
            && fits(&self.image, &target.image)
            && (fits(&self.token, &target.token) || fits(&self.token, &target.fingerprint))
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rule {
    pub(crate) id: u64,
    #[serde(flatten)]
    fault: Fault,
    /// Requests that fitted.
    seen: u64,
    /// Requests that it met.
    fired: u64,
    #[serde(skip)]
    random: Random,
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
        let random = Random::seeded(fault.seed);
        let lasts = fault.for_ms.map(Duration::from_millis);
        let until = lasts.and_then(|lasts| Instant::now().checked_add(lasts));
        self.rules.push(Rule {
            id: self.last_id,
            fault,
            seen: 0,
            fired: 0,
            random,
            until,
        });
        self.last_id
    }

    /// The first rule that meets this request. Those behind it don't count the request.
    pub(crate) fn pick(&mut self, target: &Target) -> Option<(u64, Action)> {
        for rule in &mut self.rules {
            if !rule.fault.matches.fits(target) {
                continue;
            }
            rule.seen += 1;
            let over = rule.until.is_some_and(|until| Instant::now() >= until);
            let spent = over || rule.fault.times != 0 && rule.fired >= rule.fault.times;
            let early = rule.seen < rule.fault.matches.nth.unwrap_or(1);
            if !spent && !early && rule.random.chance(rule.fault.probability) {
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

    use super::{FaultBook, Target};
    use crate::route::Operation;

    fn book(fault: Value) -> FaultBook {
        let mut book = FaultBook::default();
        book.add(serde_json::from_value(fault).expect("a valid fault"));
        book
    }

    fn create(key: &str) -> Target {
        Target {
            operation: Some(Operation::CreateRun),
            key: Some(key.to_owned()),
            ..Target::default()
        }
    }

    #[test]
    fn a_fault_applies_to_one_request_by_default() {
        let mut book = book(json!({"action": {"type": "doThenLose"}}));
        let met: Vec<_> = (0..3).map(|_| book.pick(&create("k")).is_some()).collect();
        assert_eq!(met, [true, false, false]);
    }

    #[test]
    fn a_fault_begins_with_the_nth_fitting_request() {
        let fault = json!({"match": {"operation": "createRun", "key": "k", "nth": 2}, "action": {"type": "loseBefore"}, "times": 0});
        let mut book = book(fault);
        assert!(book.pick(&create("other")).is_none());
        assert!(book.pick(&create("k")).is_none());
        assert!(book.pick(&create("k")).is_some());
        assert!(book.pick(&create("k")).is_some());
        assert!(
            book.pick(&Target {
                operation: Some(Operation::GetRun),
                ..Target::default()
            })
            .is_none()
        );
    }

    #[test]
    fn a_fault_ends_with_its_time_or_when_it_is_removed() {
        let mut book = book(json!({"action": {"type": "loseBefore"}, "times": 0, "forMs": 0}));
        assert!(book.pick(&create("k")).is_none());
        let lasting = json!({"action": {"type": "loseBefore"}, "times": 0, "forMs": 60_000});
        book.add(serde_json::from_value(lasting).expect("a valid fault"));
        assert!(book.pick(&create("k")).is_some());
        book.remove(None);
        assert!(book.pick(&create("k")).is_none());
    }

    #[test]
    fn a_storm_repeats_with_its_seed() {
        let storm = |seed: u64| {
            let mut book = book(
                json!({"action": {"type": "loseBefore"}, "times": 0, "probability": 0.5, "seed": seed}),
            );
            (0..50)
                .map(|_| book.pick(&create("k")).is_some())
                .collect::<Vec<_>>()
        };
        assert_eq!(storm(1), storm(1));
        assert_ne!(storm(1), storm(2));
    }
}
