//! The planned fault, and the points passed so far.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::str::FromStr;
use std::sync::{Mutex, OnceLock};

use tokio::sync::watch;

use crate::util::lock;

/// One fault at one point.
const FAULT: &str = "RUN_OPERATOR_FAULT";
/// The file to which passed points are written.
const POINTS: &str = "RUN_OPERATOR_POINTS";

/// Fault of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL before it is sent; for an event, before it is processed.
    KillBefore,
    /// SIGKILL when its answer has begun, or the event was processed.
    KillAfter,
    /// Not sent, as if the connection had broken before; the stream breaks before the event.
    LoseRequest,
    /// Carried out without a visible answer; the stream breaks after the event.
    LoseAnswer,
    /// Carried out twice, one after the other, and the second answer is returned; the event comes twice.
    Double,
    /// Carried out, its answer returned, and carried out once more when others have overtaken.
    DoubleLate,
    /// Delayed until others have overtaken.
    Delay,
    /// Carried out, and the answer breaks in the middle of its body; the stream breaks within the event.
    Cut,
    /// The reconcile panics. At no effect, and so in no table of them.
    Panic,
}

impl Fault {
    /// Every fault of an effect.
    pub const ALL: [Self; 8] = [
        Self::KillBefore,
        Self::KillAfter,
        Self::LoseRequest,
        Self::LoseAnswer,
        Self::Double,
        Self::DoubleLate,
        Self::Delay,
        Self::Cut,
    ];

    /// Its name in the variable.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KillBefore => "kill-before",
            Self::KillAfter => "kill-after",
            Self::LoseRequest => "lose-request",
            Self::LoseAnswer => "lose-answer",
            Self::Double => "double",
            Self::DoubleLate => "double-late",
            Self::Delay => "delay",
            Self::Cut => "cut",
            Self::Panic => "panic",
        }
    }
}

/// The point of the planned fault.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    name: String,
    number: u64,
    fault: Fault,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let (Some(name), Some(number), Some(word), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(format!("{FAULT} is POINT:NUMBER:FAULT, and not {text:?}"));
        };
        let number = number
            .parse()
            .map_err(|_| format!("{FAULT}: {number:?} is no number"))?;
        let mut all = Fault::ALL.into_iter().chain([Fault::Panic]);
        let fault = all.find(|f| f.as_str() == word);
        Ok(Self {
            name: name.to_owned(),
            number,
            fault: fault.ok_or_else(|| format!("{FAULT}: no fault is called {word:?}"))?,
        })
    }
}

/// The process's plan and its progress.
struct Plan {
    wanted: Option<Wanted>,
    trace: Option<File>,
    counts: Mutex<HashMap<String, u64>>,
    passed: watch::Sender<u64>,
}

/// A point that is being passed.
pub(super) struct Passing {
    name: String,
    number: u64,
    pub(super) fault: Option<Fault>,
}

/// Reads the plan.
///
/// # Errors
/// With a message if it can't be read: a fault that never happens would prove nothing.
pub fn check() -> Result<(), String> {
    let wanted = match std::env::var(FAULT) {
        Ok(text) => Some(text.parse()?),
        Err(_) => None,
    };
    let open = |path: &std::ffi::OsStr| File::options().create(true).append(true).open(path);
    let trace = std::env::var_os(POINTS)
        .map(|path| open(&path).map_err(|error| format!("failed to open {POINTS}: {error}")))
        .transpose()?;
    let _ = PLAN.set(Plan::new(wanted, trace));
    Ok(())
}

static PLAN: OnceLock<Plan> = OnceLock::new();

impl Plan {
    fn new(wanted: Option<Wanted>, trace: Option<File>) -> Self {
        Self {
            wanted,
            trace,
            counts: Mutex::default(),
            passed: watch::Sender::new(0),
        }
    }

    /// The plan as read; empty if [`check`] was not called first.
    fn of_process() -> &'static Self {
        PLAN.get_or_init(|| Self::new(None, None))
    }

    fn pass(&self, name: &str) -> Passing {
        let number = {
            let mut counts = lock(&self.counts);
            let count = counts.entry(name.to_owned()).or_default();
            *count += 1;
            *count
        };
        self.record(&format!("{name} {number}"));
        let here = self
            .wanted
            .as_ref()
            .filter(|wanted| wanted.name == name && wanted.number == number);
        let fault = here.map(|wanted| wanted.fault);
        self.passed.send_modify(|passed| *passed += 1);
        Passing {
            name: name.to_owned(),
            number,
            fault,
        }
    }

    /// One write per line: the lines in the file are complete, however the process ends.
    fn record(&self, line: &str) {
        let Some(mut file) = self.trace.as_ref() else {
            return;
        };
        if let Err(error) = file.write_all(format!("{line}\n").as_bytes()) {
            eprintln!("run-operator: failed to write {POINTS}: {error}");
        }
    }
}

/// Counts and records a point that is about to be passed.
pub(super) fn pass(name: &str) -> Passing {
    Plan::of_process().pass(name)
}

/// Whether this reconcile is the one that is to panic. Reconciles are counted, but are no points.
pub(super) fn panics(name: &str) -> bool {
    let plan = Plan::of_process();
    let Some(wanted) = plan
        .wanted
        .as_ref()
        .filter(|wanted| wanted.fault == Fault::Panic && wanted.name == name)
    else {
        return false;
    };
    let mut counts = lock(&plan.counts);
    let count = counts.entry(name.to_owned()).or_default();
    *count += 1;
    *count == wanted.number
}

/// Number of points passed.
pub(super) fn passed() -> watch::Receiver<u64> {
    Plan::of_process().passed.subscribe()
}

impl Passing {
    /// Records that the fault happens.
    pub(super) fn happens(&self) {
        if let Some(fault) = self.fault {
            let line = format!("! {} {} {}", self.name, self.number, fault.as_str());
            Plan::of_process().record(&line);
        }
    }

    /// Records that the late part of the fault has happened.
    pub(super) fn over(&self) {
        Plan::of_process().record(&format!(". {} {}", self.name, self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_parsed_from_point_number_and_action() {
        for fault in Fault::ALL {
            let text = format!("kube.run.intent:2:{}", fault.as_str());
            let wanted = Wanted {
                name: "kube.run.intent".to_owned(),
                number: 2,
                fault,
            };
            assert_eq!(text.parse(), Ok(wanted));
        }
    }

    #[test]
    fn what_can_t_be_read_is_no_plan() {
        for text in ["", "service.create", "a:b:double", "a:1:twice", "a:1:cut:2"] {
            assert!(text.parse::<Wanted>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_fault_happens_at_its_number_and_once() {
        let plan = Plan::new(Some("a:2:cut".parse().unwrap()), None);
        let faults: Vec<_> = ["a", "b", "a", "a"]
            .map(|name| plan.pass(name).fault)
            .into();
        assert_eq!(faults, [None, None, Some(Fault::Cut), None]);
    }
}
