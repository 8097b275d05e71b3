//! The state of the world: the API server, the processes, what is on its way, the service, and what is
//! allowed to go wrong still.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use run_operator::api::{Reason, RunStatus};

use crate::object::{Object, Remembered};
use crate::properties::Broken;

/// The world at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    pub(crate) now: i64,
    /// The objects at the API server, by name.
    pub(crate) live: [Option<Arc<Object>>; 2],
    /// The latest resourceVersion.
    pub(crate) version: u32,
    /// Two processes at the same time, at most: the second may have been started by a lease that the first
    /// has not noticed to be lost.
    pub(crate) procs: [Option<Proc>; 2],
    /// Processes that were ever started.
    pub(crate) started: u8,
    pub(crate) service: Service,
    /// Requests to the service that are on their way.
    pub(crate) calls: Vec<Packet>,
    /// Writes to the API server that nobody waits for any more.
    pub(crate) writes: Vec<Write>,
    pub(crate) world: World,
    pub(crate) left: Budget,
    /// What is known of each object to nobody but the model, by uid.
    pub(crate) ghosts: Vec<Ghost>,
    /// The faults have ended: the way to rest, see `fair`.
    pub(crate) fair: Option<Fair>,
    pub(crate) broken: Option<Broken>,
}

/// How far the way to rest has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fair {
    /// First submissions are still held. Counts, as the others do, the looks in a row that came to nothing.
    Held(u8),
    /// Nobody but the operator does anything.
    Alone(u8),
    /// The object, at rest, was deleted.
    Deleted(u8),
    /// It says what it waits for, and was told to leave its run.
    Orphaned(u8),
}

/// One process of the operator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Proc {
    /// Names it: no two processes have one name.
    pub(crate) number: u8,
    /// The objects as its watch last showed them, by name.
    pub(crate) store: [Option<Arc<Object>>; 2],
    pub(crate) view: View,
    /// Sessions that it began.
    pub(crate) sessions: u8,
    /// A call was answered by a 401.
    pub(crate) suspects: bool,
    pub(crate) entries: Vec<Entry>,
    /// Who of its Runs has the right to the user's key.
    pub(crate) claim: Option<u8>,
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
        /// Why first submissions are held, if they are.
        holds: Option<Reason>,
    },
}

/// What a process keeps of an object, as `src/controller/objects.rs` does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) uid: u8,
    pub(crate) name: usize,
    pub(crate) memory: Remembered,
    pub(crate) latest: Option<Arc<Object>>,
    pub(crate) hold: Hold,
    /// A call is under way: nothing else is begun.
    pub(crate) calling: bool,
    pub(crate) streaming: bool,
    /// The object is gone, and this was last seen of it.
    pub(crate) vanishing: Option<Arc<Object>>,
    pub(crate) wake: Wake,
    /// It saw or wrote the end.
    pub(crate) ended: bool,
    /// The session of the latest 401; 0 for none.
    pub(crate) refused: u8,
    pub(crate) cancel: Cancelled,
}

/// What a process knows of the latest cancellation that it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cancelled {
    /// There was none, or it was seen to have come to nothing.
    No,
    /// It was answered, and nobody looked since.
    Unlooked { accepted: bool },
    /// It was accepted, and a GET showed the run cancelling.
    UnderWay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Hold {
    Held,
    Released,
    Gone,
}

/// When an object is looked at next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Wake {
    /// There is something to be done now.
    Now,
    At(i64),
    /// Before something changes.
    Never,
}

/// The service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Service {
    pub(crate) runs: Vec<ServiceRun>,
    pub(crate) keys: Vec<Key>,
    /// It refuses these bytes for good.
    pub(crate) refuses: bool,
}

/// Where something is at the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Home {
    /// Whom the token acts for.
    pub(crate) identity: u8,
    /// The other base URL.
    pub(crate) moved: bool,
}

/// The service's memory of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(
    clippy::struct_field_names,
    reason = "it is what the header calls the key, of what the service keeps for one"
)]
pub(crate) struct Key {
    pub(crate) home: Home,
    pub(crate) key: Arc<str>,
    pub(crate) bytes: u64,
    /// `None`: the request is being worked on.
    pub(crate) run: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ServiceRun {
    /// The object that it was first made for.
    pub(crate) uid: u8,
    pub(crate) home: Home,
    /// The states it went through; the last is in force. Each is an event.
    pub(crate) passed: Vec<RunState>,
    /// When a cancellation was accepted first.
    pub(crate) accepted: Option<i64>,
    /// The service has lost it.
    pub(crate) lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RunState {
    Running,
    Cancelling,
    Succeeded,
    Failed,
    Cancelled,
}

impl RunState {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Cancelling => "cancelling",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub(crate) fn ended(self) -> bool {
        !matches!(self, Self::Running | Self::Cancelling)
    }
}

impl ServiceRun {
    pub(crate) fn state(&self) -> RunState {
        self.passed.last().copied().unwrap_or(RunState::Running)
    }

    pub(crate) fn live(&self) -> bool {
        !self.state().ended() && !self.lost
    }
}

/// A request to the service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Packet {
    pub(crate) uid: u8,
    /// The process that waits for the answer.
    pub(crate) caller: Option<u8>,
    pub(crate) call: Call,
    pub(crate) token: u8,
    pub(crate) session: u8,
    /// It goes to the other base URL.
    pub(crate) moved: bool,
    /// The service works on it.
    pub(crate) begun: bool,
    /// The network sent it twice.
    pub(crate) doubled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Call {
    Create { key: Arc<str>, bytes: u64 },
    Get(usize),
    Cancel(usize),
}

/// A write to the API server that its sender has given up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    pub(crate) name: usize,
    pub(crate) uid: u8,
    pub(crate) version: u32,
    pub(crate) sender: u8,
    pub(crate) op: Op,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    Status(Box<RunStatus>),
    /// The annotation's text, and whether the finalizer goes along.
    Intent(String, bool),
    /// The annotation's text, if it is changed.
    Release(Option<String>),
    Delete,
}

/// What the operator has no hand in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// Every token that ever was; the Secret holds the last.
    pub(crate) tokens: Vec<Token>,
    /// The uid of the Workspace, if there is one.
    pub(crate) workspace: Option<u8>,
    /// First submissions are held: the service's version is not accepted.
    pub(crate) holds: bool,
    /// The Workspace is being deleted, and goes when no Run needs it.
    pub(crate) leaving: bool,
    /// The namespace may use the Workspace.
    pub(crate) allowed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token {
    pub(crate) identity: u8,
    pub(crate) valid: bool,
}

/// What may happen still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Requests to the service that go wrong.
    pub(crate) calls: u8,
    /// Writes to the API server that go wrong.
    pub(crate) writes: u8,
    pub(crate) crashes: u8,
    /// Processes that are started while another is up.
    pub(crate) leases: u8,
    /// Things that a person does.
    pub(crate) users: u8,
    /// Things that happen to the token and the Workspace.
    pub(crate) turns: u8,
    /// Changes of the run at the service that nobody asked for.
    pub(crate) runs: u8,
    pub(crate) events: u8,
    pub(crate) moments: u8,
    pub(crate) minutes: u8,
    pub(crate) patience: u8,
    pub(crate) days: u8,
}

/// What the model alone knows of an object.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ghost {
    pub(crate) gone: bool,
    /// Somebody took finalizer and intent off, or the object.
    pub(crate) forced: bool,
    /// A living process knows its run, and it is gone by force.
    pub(crate) owed: bool,
    pub(crate) orphaned: bool,
    pub(crate) deleted: Option<i64>,
    /// Processes that wrote an intent into it: a bit each.
    pub(crate) owners: u16,
    pub(crate) run_id: Option<String>,
    /// Since its deletion a cancel said that there is no such run.
    pub(crate) cancel_denied: bool,
    /// A GET after that said so too.
    pub(crate) both_denied: bool,
    /// When GETs said that there is no such run.
    pub(crate) denials: Vec<i64>,
    /// When a GET last showed the run cancelling.
    pub(crate) cancelling: Option<i64>,
    pub(crate) posted: bool,
    /// A mark of the place that the operator last wrote into the intent.
    pub(crate) pinned: Option<u64>,
    /// The latest POST was the first of all, under the first intent.
    pub(crate) first: bool,
    /// What the intent of the latest POST named as the retry.
    pub(crate) retried: Option<String>,
    /// Answers in a row, heard by one process, that could not be read.
    pub(crate) unreadable: u8,
    /// The process that heard an answer that ends the submission under this epoch.
    pub(crate) answered: Option<u8>,
    /// The operator kept the end in the intent, and let go.
    pub(crate) kept: bool,
    /// Somebody wrote an end into the intent.
    pub(crate) forged: bool,
    /// A process read that end which knows nothing better (docs/limits.md).
    pub(crate) misled: bool,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, h: &mut H) {
        let order = self.versions();
        let rank = |version: u32| order.binary_search(&version).unwrap_or(usize::MAX);
        let object = |object: &Option<Arc<Object>>, h: &mut H| {
            let seen = object.as_ref().map(|o| (o.mark, o.uid, rank(o.version)));
            seen.hash(h);
        };
        self.now.hash(h);
        self.live.iter().for_each(|o| object(o, h));
        for proc in &self.procs {
            let Some(proc) = proc else {
                0_u8.hash(h);
                continue;
            };
            (1_u8, proc.number, proc.view, proc.sessions, proc.suspects).hash(h);
            proc.claim.hash(h);
            proc.store.iter().for_each(|o| object(o, h));
            for e in &proc.entries {
                (e.uid, &e.memory, e.hold, e.calling).hash(h);
                (e.streaming, e.wake, e.ended).hash(h);
                object(&e.latest, h);
                object(&e.vanishing, h);
            }
        }
        (self.started, &self.service, &self.calls).hash(h);
        for w in &self.writes {
            (w.name, w.uid, rank(w.version), w.sender).hash(h);
            crate::object::mark(&format!("{:?}", w.op)).hash(h);
        }
        (
            &self.world,
            &self.left,
            &self.ghosts,
            self.fair,
            self.broken,
        )
            .hash(h);
    }
}

impl State {
    /// The resourceVersions that somebody still speaks of: only their order counts.
    fn versions(&self) -> Vec<u32> {
        let procs = self.procs.iter().flatten();
        let kept = procs.flat_map(|p| {
            let entries = p.entries.iter();
            let entries = entries.flat_map(|e| [&e.latest, &e.vanishing]);
            entries.chain(&p.store).flatten().map(|o| o.version)
        });
        let live = self.live.iter().flatten().map(|o| o.version);
        let writes = self.writes.iter().map(|w| w.version);
        let mut all: Vec<u32> = live.chain(kept).chain(writes).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    pub(crate) fn ghost(&mut self, uid: u8) -> &mut Ghost {
        &mut self.ghosts[usize::from(uid) - 1]
    }

    pub(crate) fn slot_of(&self, number: u8) -> Option<usize> {
        let is = |p: &Option<Proc>| p.as_ref().is_some_and(|p| p.number == number);
        self.procs.iter().position(is)
    }

    /// The first thing that went against the promise.
    pub(crate) fn breaks(&mut self, what: Broken) {
        self.broken.get_or_insert(what);
    }
}
