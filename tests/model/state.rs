//! The state of the world: the API server, the processes, what is on its way, the service, and what is
//! allowed to go wrong still.

mod process;
mod service;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use run_operator::{api::RunStatus, decide::MetadataChange};

use crate::object::Object;
use crate::properties::Broken;
pub(crate) use process::{Cancelled, Entry, Known, Place, Proc, View, Wake};
pub(crate) use service::{Call, Home, Key, Packet, RunState, Service, ServiceRun};

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
    /// Writes to the API server whose sender no longer waits.
    pub(crate) writes: Vec<Write>,
    pub(crate) world: World,
    pub(crate) left: Budget,
    /// Facts about each object that only the model knows, by uid.
    pub(crate) ghosts: Vec<Ghost>,
    /// The faults have ended: the way to rest, see `fair`.
    pub(crate) fair: Option<Fair>,
    pub(crate) broken: Option<Broken>,
}

/// The stage on the way to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fair {
    /// First submissions are still held. Counts, as the others do, the consecutive reconciles without an
    /// effect.
    Held(u8),
    /// Only the operator acts.
    Alone(u8),
    /// The object, at rest, was deleted.
    Deleted(u8),
    /// It shows what it waits for, and was set to leave its run.
    Orphaned(u8),
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
    /// The finalizer and the intent are written.
    Intent(MetadataChange),
    /// The finalizer is removed.
    Release(MetadataChange),
    Delete,
}

/// Facts outside of the operator's control.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// Every token that ever was; the Secret holds the last.
    pub(crate) tokens: Vec<Token>,
    /// The uid of the Workspace, if there is one.
    pub(crate) workspace: Option<u8>,
    /// First submissions are held: the service's version is not accepted.
    pub(crate) holds: bool,
    /// The Workspace is being deleted, and removed when no Run needs it.
    pub(crate) leaving: bool,
    /// The namespace may use the Workspace.
    pub(crate) allowed: bool,
    /// Whether the ClusterWorkspace is the default; none if ClusterWorkspaces are not served.
    pub(crate) shared: Option<bool>,
    /// `maxActiveRuns` of the Workspace; none where nothing is limited.
    pub(crate) limit: Option<u8>,
    /// The highest that it ever was, where one process leads at a time.
    pub(crate) highest: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token {
    pub(crate) identity: u8,
    pub(crate) valid: bool,
}

/// The remaining budget of actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Requests to the service that go wrong.
    pub(crate) calls: u8,
    /// Writes to the API server that go wrong.
    pub(crate) writes: u8,
    pub(crate) crashes: u8,
    /// Lists from the past, which lack an object that exists.
    pub(crate) lists: u8,
    /// Processes that are started while another is up.
    pub(crate) leases: u8,
    /// Things that a person does.
    pub(crate) users: u8,
    /// Things that happen to the token and the Workspace.
    pub(crate) turns: u8,
    /// Changes of the run at the service that no request caused.
    pub(crate) runs: u8,
    pub(crate) events: u8,
    pub(crate) moments: u8,
    pub(crate) minutes: u8,
    pub(crate) patience: u8,
    pub(crate) days: u8,
    /// Calls for others that take the only place.
    pub(crate) busy: u8,
    /// There is one place for calls in a process.
    pub(crate) one_place: bool,
    /// The service has the same code for a key whose request is in progress and for one that was used for
    /// another request.
    pub(crate) one_word: bool,
}

/// Facts about an object that only the model knows.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ghost {
    pub(crate) gone: bool,
    /// Somebody took finalizer and intent off, or the object.
    pub(crate) forced: bool,
    /// A living process knows its run, and it was removed by force.
    pub(crate) owed: bool,
    pub(crate) orphaned: bool,
    pub(crate) deleted: Option<i64>,
    /// Processes that wrote an intent into it: a bit each.
    pub(crate) owners: u16,
    pub(crate) run_id: Option<String>,
    /// Somebody took its deadline away when the status showed that it had passed.
    pub(crate) overdue: bool,
    /// Since its deletion a cancel was answered with not found.
    pub(crate) cancel_denied: bool,
    /// A GET after that was answered in the same way.
    pub(crate) both_denied: bool,
    /// Times of the GETs that were answered with not found.
    pub(crate) denials: Vec<i64>,
    /// Time of the last GET that showed the run cancelling.
    pub(crate) cancelling: Option<i64>,
    pub(crate) posted: bool,
    /// Kind and name of the Workspace in the operator's first intent.
    pub(crate) uses: Option<String>,
    /// A mark of the place that the operator last wrote into the intent.
    pub(crate) pinned: Option<u64>,
    /// The latest POST was the first of all, under the first intent.
    pub(crate) first: bool,
    /// The retry in the intent of the latest POST.
    pub(crate) retried: Option<String>,
    /// The retry annotation that came with the copy of another object: no request to retry this one.
    pub(crate) copied_wish: Option<String>,
    /// Consecutive answers to one process that could not be read.
    pub(crate) unreadable: u8,
    /// The process that got an answer that ends the submission under this epoch.
    pub(crate) answered: Option<u8>,
    /// The operator kept the end in the intent, and removed the finalizer.
    pub(crate) kept: bool,
    /// Somebody wrote an end into the intent.
    pub(crate) forged: bool,
    /// A process without better knowledge read that end (docs/limits.md).
    pub(crate) misled: bool,
    /// Its intent was written by a process that was gone when the write arrived.
    pub(crate) unseen: bool,
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
            (proc.claim, proc.place, &proc.queues, proc.limit).hash(h);
            for known in &proc.store {
                matches!(known, Known::Gone(_)).hash(h);
                object(&Some(Arc::clone(known.object())), h);
            }
            for e in &proc.entries {
                (e.uid, &e.run.memory, e.calling()).hash(h);
                (e.run.deleted(), e.run.released()).hash(h);
                (e.streaming, e.wake, e.waits, e.ended).hash(h);
                object(&e.run.latest().cloned(), h);
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
            let entries = p.entries.iter().filter_map(|e| e.run.latest());
            let known = p.store.iter().map(Known::object);
            entries.chain(known).map(|o| o.version)
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
