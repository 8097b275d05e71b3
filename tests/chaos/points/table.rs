//! The results of all lives.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use run_operator::points::Fault;

use super::scenario::Scenario;
use test_support::figures::Figures;

/// One life.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) scenario: Scenario,
    pub(super) point: String,
    pub(super) number: u64,
    pub(super) fault: Fault,
}

impl Case {
    /// The fault as the operator reads it.
    pub(super) fn fault_text(&self) -> String {
        format!("{}:{}:{}", self.point, self.number, self.fault.as_str())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scenario.as_str(), self.fault_text())
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

/// Points against faults.
pub(super) struct Table {
    cells: BTreeMap<(String, &'static str), Cell>,
    points: BTreeSet<(Scenario, String, u64)>,
    pub(super) differing: Vec<(Case, Vec<String>)>,
}

#[derive(Default)]
struct Cell {
    same: usize,
    not_reached: usize,
    differing: usize,
}

impl Table {
    pub(super) fn of(lives: Vec<(Case, Verdict)>) -> Self {
        let mut table = Self {
            cells: BTreeMap::new(),
            points: BTreeSet::new(),
            differing: Vec::new(),
        };
        for (case, verdict) in lives {
            let place = (case.point.clone(), case.fault.as_str());
            let cell = table.cells.entry(place).or_default();
            match verdict {
                Verdict::Same => cell.same += 1,
                Verdict::NotReached => {
                    eprintln!("not reached: {case}");
                    cell.not_reached += 1;
                }
                Verdict::Differs(_) => cell.differing += 1,
            }
            table
                .points
                .insert((case.scenario, case.point.clone(), case.number));
            if let Verdict::Differs(told) = verdict {
                table.differing.push((case, told));
            }
        }
        table
    }

    /// Prints and keeps it.
    pub(super) fn record(&self) {
        let total = |of: fn(&Cell) -> usize| self.cells.values().map(of).sum::<usize>();
        let names: BTreeSet<_> = self.cells.keys().map(|(point, _)| point).collect();
        let scenarios: BTreeSet<_> = self.points.iter().map(|(scenario, ..)| scenario).collect();
        let faults: Vec<_> = Fault::ALL
            .iter()
            .map(|fault| fault.as_str())
            .filter(|fault| self.cells.keys().any(|(_, f)| f == fault))
            .collect();
        let rows = names.iter().map(|&point| {
            let cells = faults.iter().map(|fault| self.cell(point, fault));
            std::iter::once(format!("`{point}`")).chain(cells).collect()
        });
        let head: Vec<_> = std::iter::once("point")
            .chain(faults.iter().copied())
            .collect();
        Figures::new("points")
            .row("Kinds of points", names.len())
            .row("Points, each in its scenario", self.points.len())
            .row("Scenarios", scenarios.len())
            .row("Faults", faults.len())
            .row(
                "Lives that ended as without the fault",
                total(|cell| cell.same),
            )
            .row("Lives that ended otherwise", total(|cell| cell.differing))
            .row(
                "Lives that did not come to their point",
                total(|cell| cell.not_reached),
            )
            .table(
                "Lives by point and fault that ended as without it",
                &head,
                rows.collect(),
            )
            .record();
    }

    fn cell(&self, point: &str, fault: &'static str) -> String {
        let Some(cell) = self.cells.get(&(point.to_owned(), fault)) else {
            return "–".to_owned();
        };
        let all = cell.same + cell.differing;
        if cell.differing == 0 {
            all.to_string()
        } else {
            format!("{} of {all}", cell.same)
        }
    }

    /// Kinds of points, with a fault, to which no life came.
    pub(super) fn untried(&self) -> Vec<String> {
        let cells = self.cells.iter();
        cells
            .filter(|(_, cell)| cell.same + cell.differing == 0)
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
