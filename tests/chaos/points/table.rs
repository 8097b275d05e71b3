//! The results of all lives.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::plan::Fault;
use super::scenario::Scenario;
use super::word;

/// One life.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) scenario: Scenario,
    pub(super) point: String,
    pub(super) number: usize,
    pub(super) fault: Fault,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scenario, fault) = (word(&self.scenario), word(&self.fault));
        write!(f, "{scenario}:{}:{}:{fault}", self.point, self.number)
    }
}

/// The result of a life with a fault.
pub(super) enum Verdict {
    /// Ended as the life without the fault.
    Same,
    /// Ended as the life without the fault, and passed the point fewer times than needed.
    NotReached,
    /// Otherwise.
    Differs(Vec<String>),
}

/// The lives by how they ended.
#[derive(Default)]
pub(super) struct Table {
    points: BTreeSet<(Scenario, String, usize)>,
    same: usize,
    not_reached: Vec<Case>,
    pub(super) differing: Vec<(Case, Vec<String>)>,
    /// By the kind of point and the fault, how often it happened.
    happened: BTreeMap<(String, String), usize>,
}

impl Table {
    pub(super) fn of(lives: Vec<(Case, Verdict)>) -> Self {
        let mut table = Self::default();
        for (case, verdict) in lives {
            let point = (case.scenario, case.point.clone(), case.number);
            table.points.insert(point);
            let kind = (case.point.clone(), word(&case.fault));
            let happened = table.happened.entry(kind).or_default();
            *happened += usize::from(!matches!(verdict, Verdict::NotReached));
            match verdict {
                Verdict::Same => table.same += 1,
                Verdict::NotReached => table.not_reached.push(case),
                Verdict::Differs(told) => table.differing.push((case, told)),
            }
        }
        table
    }

    pub(super) fn print(&self) {
        for case in &self.not_reached {
            eprintln!("points: not reached: {case}");
        }
        let kinds: BTreeSet<_> = self.happened.keys().map(|(point, _)| point).collect();
        eprintln!(
            "points: {} points of {} kinds; {} lives ended as without the fault, {} otherwise, {} did not come to their point",
            self.points.len(),
            kinds.len(),
            self.same,
            self.differing.len(),
            self.not_reached.len(),
        );
    }

    /// Kinds of points, with a fault, to which no life came.
    pub(super) fn untried(&self) -> Vec<String> {
        let untried = self.happened.iter().filter(|(_, times)| **times == 0);
        untried
            .map(|((point, fault), _)| format!("{point}:{fault}"))
            .collect()
    }

    /// Each life that ended otherwise, and how to live it again.
    pub(super) fn told(&self) -> String {
        let tell = |(case, told): &(Case, Vec<String>)| {
            format!("{}={case}\n  {}", super::REPLAY, told.join("\n  "))
        };
        let told: Vec<_> = self.differing.iter().map(tell).collect();
        told.join("\n")
    }
}
