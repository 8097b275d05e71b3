//! The state of a process of the operator.

use std::sync::Arc;

use run_operator::api::Reason;
use run_operator::decide::{queue::Queues, turn::TrackedRun};

use crate::object::{Object, Remembered};

/// One process of the operator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Proc {
    /// Names it: no two processes have one name.
    pub(crate) number: u8,
    /// The objects that it knows, in the order of their uids.
    pub(crate) store: Vec<Known>,
    pub(crate) view: View,
    /// Sessions that it began.
    pub(crate) sessions: u8,
    /// A call was answered by a 401.
    pub(crate) suspects: bool,
    pub(crate) entries: Vec<Entry>,
    /// The holder of the user's key among its Runs.
    pub(crate) claim: Option<u8>,
    /// The place for calls of the Workspace, if there are not enough of them.
    pub(crate) place: Option<Place>,
    /// Slots of the Workspace, and `maxActiveRuns` as last seen; only where it is limited.
    pub(crate) queues: Queues,
    pub(crate) limit: Option<u8>,
}

/// The only place for calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Free,
    /// A call for somebody else's Run has it.
    Other,
    /// A call for this Run has it, or it is granted to it.
    Run(u8),
}

/// What a process knows of an object, as in `src/controller/state/run_store.rs`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Known {
    /// As its watch last showed it.
    Shown(Arc<Object>),
    /// The watch lacks it, and the process remembers it: its last version.
    Gone(Arc<Object>),
}

impl Known {
    pub(crate) fn object(&self) -> &Arc<Object> {
        match self {
            Self::Shown(object) | Self::Gone(object) => object,
        }
    }
}

impl Proc {
    /// The object of this name, as the watch shows it.
    pub(crate) fn shown(&self, name: usize) -> Option<&Arc<Object>> {
        self.store.iter().find_map(|known| match known {
            Known::Shown(object) if object.name() == name => Some(object),
            Known::Shown(_) | Known::Gone(_) => None,
        })
    }

    /// Whether the watch lacks an object that this process remembers.
    pub(crate) fn lacks(&self, uid: u8) -> bool {
        let gone = |known: &Known| matches!(known, Known::Gone(object) if object.uid == uid);
        self.store.iter().any(gone)
    }

    /// Takes the place for a call of this Run, if it may be made now.
    pub(crate) fn takes_place(&mut self, uid: u8) -> bool {
        let takes = matches!(self.place, None | Some(Place::Free)) || self.has_place(uid);
        if takes {
            self.place = self.place.map(|_| Place::Run(uid));
        }
        takes
    }

    /// Whether this Run has the place.
    pub(crate) fn has_place(&self, uid: u8) -> bool {
        self.place == Some(Place::Run(uid))
    }

    /// The place is free. It is granted to the first Run that waits for it, which decides again.
    pub(crate) fn frees_place(&mut self) {
        let next = self.entries.iter_mut().find(|entry| entry.waits);
        let next = next.map(|entry| {
            (entry.waits, entry.wake) = (false, Wake::Now);
            Place::Run(entry.uid)
        });
        self.place = Some(next.unwrap_or(Place::Free));
    }

    /// This Run wants no call any more.
    pub(crate) fn leaves_place(&mut self, uid: u8) {
        let mut calling = false;
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.uid == uid) {
            entry.waits = false;
            calling = entry.calling();
        }
        if self.has_place(uid) && !calling {
            self.frees_place();
        }
    }

    /// Replaces what is known of an object.
    pub(crate) fn knows(&mut self, uid: u8, known: Option<Known>) {
        self.store.retain(|known| known.object().uid != uid);
        self.store.extend(known);
        self.store.sort_by_key(|known| known.object().uid);
    }
}

/// A Workspace as a process last saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum View {
    Unknown,
    Missing,
    NotReady(Reason),
    Ready {
        /// The token, by its number.
        token: u8,
        session: u8,
        /// The uid of the Workspace.
        workspace: u8,
        /// Reason for which first submissions are held, if they are.
        holds: Option<Reason>,
    },
}

/// A process's state for one object, as in `src/controller/state/runs.rs`.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) uid: u8,
    /// The controller's own record.
    pub(crate) run: TrackedRun<Object, Remembered>,
    pub(crate) streaming: bool,
    pub(crate) wake: Wake,
    /// It waits for a place for its call.
    pub(crate) waits: bool,
    /// It was decided once.
    pub(crate) decided: bool,
    /// It saw or wrote the end.
    pub(crate) ended: bool,
    /// The session of the latest 401; 0 for none.
    pub(crate) refused: u8,
    pub(crate) cancel: Cancelled,
}

/// A process's knowledge of the latest cancellation that it requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cancelled {
    /// There was none, or it was seen to have had no effect.
    No,
    /// It was answered, and the run has not been read since.
    Unlooked { accepted: bool },
    /// It was accepted, and a GET showed the run cancelling.
    UnderWay,
}

impl Entry {
    /// A call is in flight: nothing else is begun.
    pub(crate) fn calling(&self) -> bool {
        self.run.calling()
    }

    /// The object is deleted without having been released.
    pub(crate) fn deleted(&self) -> bool {
        self.run.deleted()
    }

    /// This process has not released the object.
    pub(crate) fn held(&self) -> bool {
        !self.run.released()
    }
}

/// Time of the next reconcile of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Wake {
    /// There is something to be done now.
    Now,
    At(i64),
    /// Before something changes.
    Never,
}
