//! The results of all lives.

use std::collections::BTreeSet;
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

/// How a life with a fault ended: as the life without it, and whether it came to its point at all; or how otherwise.
pub(super) type Verdict = Result<bool, Vec<String>>;

/// The lives, and how they ended.
pub(super) struct Table(pub(super) Vec<(Case, Verdict)>);

impl Table {
    pub(super) fn print(&self) {
        let (mut points, mut kinds) = (BTreeSet::new(), BTreeSet::new());
        let [mut same, mut otherwise, mut not_reached] = [0; 3];
        for (case, verdict) in &self.0 {
            points.insert((case.scenario, &case.point, case.number));
            kinds.insert(&case.point);
            match verdict {
                Ok(true) => same += 1,
                Ok(false) => {
                    not_reached += 1;
                    eprintln!("points: not reached: {case}");
                }
                Err(_) => otherwise += 1,
            }
        }
        eprintln!(
            "points: {} points of {} kinds; {same} lives ended as without the fault, {otherwise} otherwise, \
             {not_reached} did not come to their point",
            points.len(),
            kinds.len(),
        );
    }

    /// Kinds of points, with a fault, to which no life came.
    pub(super) fn untried(&self) -> BTreeSet<String> {
        let kind = |(case, _): &(Case, Verdict)| format!("{}:{}", case.point, word(&case.fault));
        let reached = |life: &&(Case, Verdict)| life.1 != Ok(false);
        let reached: BTreeSet<String> = self.0.iter().filter(reached).map(kind).collect();
        let all: BTreeSet<String> = self.0.iter().map(kind).collect();
        &all - &reached
    }

    /// Each life that ended otherwise, and how to live it again.
    pub(super) fn differing(&self) -> Vec<String> {
        let tell = |(case, verdict): &(Case, Verdict)| {
            let told = verdict.as_ref().err()?.join("\n  ");
            Some(format!("{}={case}\n  {told}", super::REPLAY))
        };
        self.0.iter().filter_map(tell).collect()
    }
}
