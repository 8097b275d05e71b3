//! The points that a life passes at its two wires, and the one fault at one of them.
//!
//! A point is a write at the API server, a call at the service or an event of a stream, with its number among those of
//! its [name](super::names) since the life began. The fault is at one of them, and so happens once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::ValueEnum;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::names::EVENT;
use super::table::Case;
use crate::support::{self, Asked, Hook, Operator};

/// What is late waits for so many others, so that they overtake it …
const OVERTAKERS: u64 = 3;
/// … but no longer than this: there may be no others.
const LATE: Duration = Duration::from_secs(2);
/// Time for the operator to process an event before it is killed.
const PROCESSED: Duration = Duration::from_millis(50);

/// Fault at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Fault {
    /// SIGKILL when it has left the operator; it is not passed on.
    KillBefore,
    /// SIGKILL when it is answered, before the answer is passed on; when an event was processed.
    KillAfter,
    /// Not passed on, and the connection breaks; the stream breaks before the event.
    LoseRequest,
    /// Carried out, and the connection breaks; the stream breaks after the event.
    LoseAnswer,
    /// Carried out twice, one after the other, and the second answer counts; the event comes twice.
    Double,
    /// Carried out, answered, and carried out once more when others have overtaken.
    DoubleLate,
    /// Held until others have overtaken.
    Delay,
    /// Carried out, and the answer breaks in the middle of its body; the stream breaks within the event.
    Cut,
}

impl Fault {
    /// Whether the operator doesn't survive it.
    pub(super) fn kills(self) -> bool {
        matches!(self, Self::KillBefore | Self::KillAfter)
    }
}

/// The operator that lives now.
type Living = Arc<Mutex<Option<Operator>>>;

/// What stands among the points of a story.
const FAULT: &str = "! the fault";
const START: &str = "+ an operator starts";

/// A life's fault, and its story.
pub(super) struct Plan {
    fault: Option<Case>,
    living: Living,
    story: Mutex<Vec<String>>,
    passed: watch::Sender<u64>,
}

impl Plan {
    pub(super) fn new(fault: Option<Case>) -> Arc<Self> {
        Arc::new(Self {
            fault,
            living: Living::default(),
            story: Mutex::default(),
            passed: watch::Sender::new(0),
        })
    }

    /// The rule of the proxy at a wire, whose points have these names.
    pub(super) fn rule(
        self: &Arc<Self>,
        name: fn(&Asked) -> Option<String>,
    ) -> impl FnMut(&Asked) -> Option<support::Fault> + Send + 'static {
        let plan = Arc::clone(self);
        move |asked| plan.pass(&name(asked)?)
    }

    fn pass(&self, name: &str) -> Option<support::Fault> {
        let mut story = self.story.lock().unwrap();
        let point = format!("{name} ");
        let number = story.iter().filter(|line| line.starts_with(&point)).count() + 1;
        story.push(format!("{point}{number}"));
        self.passed.send_modify(|passed| *passed += 1);
        let here = |case: &&Case| case.point == name && case.number == number;
        let fault = self.fault.as_ref().filter(here)?.fault;
        story.push(FAULT.to_owned());
        Some(match fault {
            Fault::KillBefore => support::Fault::LoseRequest(self.kills(Duration::ZERO)),
            Fault::KillAfter if name == EVENT => support::Fault::LoseAnswer(self.kills(PROCESSED)),
            Fault::KillAfter => support::Fault::LoseAnswer(self.kills(Duration::ZERO)),
            Fault::LoseRequest => support::Fault::LoseRequest(Hook::none()),
            Fault::LoseAnswer => support::Fault::LoseAnswer(Hook::none()),
            Fault::Double => support::Fault::Double,
            Fault::DoubleLate => support::Fault::DoubleLate(self.overtaken()),
            Fault::Delay => support::Fault::Delay(self.overtaken()),
            Fault::Cut => support::Fault::Cut,
        })
    }

    /// Kills the operator after this time.
    fn kills(&self, after: Duration) -> Hook {
        let living = Arc::clone(&self.living);
        Hook::new(move || {
            let living = Arc::clone(&living);
            async move {
                if !after.is_zero() {
                    sleep(after).await;
                }
                if let Some(operator) = living.lock().unwrap().as_mut() {
                    operator.kill();
                }
            }
        })
    }

    /// Waits until others have overtaken, or for a bounded time.
    fn overtaken(&self) -> Hook {
        let passed = self.passed.clone();
        Hook::new(move || {
            let mut passed = passed.subscribe();
            async move {
                let wanted = *passed.borrow_and_update() + OVERTAKERS;
                let _ = timeout(LATE, passed.wait_for(|passed| *passed >= wanted)).await;
            }
        })
    }

    /// Whether its fault kills.
    pub(super) fn is_deadly(&self) -> bool {
        self.fault.as_ref().is_some_and(|case| case.fault.kills())
    }

    /// This operator lives now.
    pub(super) fn lives(&self, operator: Operator) {
        self.story.lock().unwrap().push(START.to_owned());
        *self.living.lock().unwrap() = Some(operator);
    }

    /// Does this with the operator that lives now.
    pub(super) fn with_operator<T>(&self, f: impl FnOnce(&mut Operator) -> T) -> Option<T> {
        self.living.lock().unwrap().as_mut().map(f)
    }

    /// None lives any more.
    pub(super) fn ends(&self) {
        drop(self.living.lock().unwrap().take());
    }

    /// Name and number of each point until now, in order.
    pub(super) fn points(&self) -> Vec<String> {
        let mut points = self.story();
        points.retain(|line| line != FAULT && line != START);
        points
    }

    /// Whether the fault has happened.
    pub(super) fn happened(&self) -> bool {
        self.story().iter().any(|line| line == FAULT)
    }

    /// What happened since the operator was started that took the place of the first; none before that.
    pub(super) fn since_the_next(&self) -> Option<Vec<String>> {
        let mut story = self.story();
        let mut starts = story.iter().enumerate().filter(|(_, line)| *line == START);
        let (second, _) = starts.nth(1)?;
        Some(story.split_off(second))
    }

    /// The points in order, with the fault and the starts among them.
    pub(super) fn story(&self) -> Vec<String> {
        self.story.lock().unwrap().clone()
    }
}
