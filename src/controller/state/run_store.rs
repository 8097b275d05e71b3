//! What this process knows of each Run object, by uid: the next object of a name is another entry.
//! - The watch alone adds and removes entries: an event of one object at once, a list at its end.
//! - A Run that this process remembers and the watch lacks stays, as [`Known::Gone`], until nothing is left to do for it: in
//!   one step with the list that lacks it, so that its Workspace never seems unneeded in between.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;

use crate::api::{Phase, Run, WorkspaceKey, WorkspaceKind, finalizer};
use crate::controller::apiserver::{BadObject, Maybe, ObjectVersion, Scope};
use crate::decide::{
    claims::{bound_to, may_use, needs_any, needs_workspace, pinned_elsewhere},
    delays::later,
};
use crate::util::lock;

/// Pause before a deletion is tried again that was refused or not answered, or that the watch has not shown.
const DELETED_AGAIN: Duration = Duration::from_mins(1);

#[derive(Clone, Debug)]
pub enum Known {
    Active(Arc<Run>),
    /// Only its metadata can be read.
    Bad(Arc<BadObject>),
    /// It has ended and was released, and nothing is left to do before its TTL.
    Ended(Arc<EndedRun>),
    /// The watch lacks it, and this process remembers it: its last version.
    Gone(Arc<Run>),
}

#[derive(Clone, Debug)]
pub struct EndedRun {
    pub object: ObjectVersion,
    pub phase: Phase,
    /// Time of the wall clock at which its TTL deletes it.
    pub expires: Option<Timestamp>,
}

impl From<Maybe<Run>> for Known {
    fn from(object: Maybe<Run>) -> Self {
        match object {
            Maybe::Good(run) => Self::Active(run),
            Maybe::Bad(bad) => Self::Bad(bad),
        }
    }
}

impl Known {
    pub fn identity(&self) -> [&str; 3] {
        let meta = match self {
            Self::Active(run) | Self::Gone(run) => &run.metadata,
            Self::Bad(bad) => &bad.metadata,
            Self::Ended(ended) => {
                let object = &ended.object;
                return [&object.uid, &object.namespace, &object.name];
            }
        };
        [&meta.uid, &meta.namespace, &meta.name].map(|text| text.as_deref().unwrap_or_default())
    }

    fn uid(&self) -> Arc<str> {
        if let Self::Ended(ended) = self {
            return Arc::clone(&ended.object.uid);
        }
        let [uid, ..] = self.identity();
        Arc::from(uid)
    }

    /// The changes that concern it, if it has not ended or is being deleted.
    pub fn waits_for(&self) -> Vec<Whose> {
        match self {
            Self::Active(run) if !run.ended() || run.metadata.deletion_timestamp.is_some() => {
                let [_, namespace, _] = self.identity();
                Whose::concerning(namespace, bound_to(run))
            }
            _ => Vec::new(),
        }
    }

    /// Whether the Workspace at this base URL (`None`: it has none) must outlive it. One that can't be decoded may need any
    /// Workspace, while it has the finalizer. One that the watch lacks needs it for the cancellation of its run.
    pub fn needs(&self, key: &WorkspaceKey, base_url: Option<&str>) -> bool {
        match self {
            Self::Active(run) => may_use(run, key) && needs_workspace(run, base_url),
            Self::Bad(bad) => {
                let namespace = bad.metadata.namespace.as_deref().unwrap_or_default();
                finalizer::present(&bad.metadata)
                    && (key.namespace.is_empty() || key.namespace == namespace)
            }
            Self::Gone(run) => may_use(run, key) && !pinned_elsewhere(run, base_url),
            Self::Ended(_) => false,
        }
    }

    /// Shares the workload, which is immutable and may have a megabyte, with an earlier version.
    fn share(&mut self, older: Option<&Self>) {
        if let (Self::Active(run), Some(Self::Active(older) | Self::Gone(older))) = (self, older)
            && let Some(run) = Arc::get_mut(run)
        {
            run.spec.workload.share(&older.spec.workload);
        }
    }
}

/// The Workspace to reconcile when a Run needs it no more. A Run without a record of its place may have held a
/// ClusterWorkspace instead: one that is being deleted is reconciled every 30 s anyway.
fn workspace_of(run: &Run) -> WorkspaceKey {
    let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
    bound_to(run).unwrap_or_else(|| WorkspaceKey::own_default(namespace))
}

#[derive(Debug)]
pub struct Change {
    pub uid: Arc<str>,
    pub old: Option<Known>,
    pub new: Option<Known>,
}

impl Change {
    pub fn unneeded(&self) -> Option<WorkspaceKey> {
        let needing = |known: &Option<Known>| match known {
            Some(Known::Active(run)) => needs_any(run).then(|| workspace_of(run)),
            Some(Known::Gone(run)) => Some(workspace_of(run)),
            _ => None,
        };
        let unneeded = needing(&self.old)?;
        needing(&self.new).is_none().then_some(unneeded)
    }

    fn is_nothing(&self) -> bool {
        matches!(self.old, None | Some(Known::Ended(_)))
            && matches!(self.new, Some(Known::Ended(_)))
    }
}

#[derive(Default)]
pub struct RunStore(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    runs: HashMap<Arc<str>, Known>,
    lists: HashMap<Scope, HashMap<Arc<str>, Known>>,
}

impl RunStore {
    pub fn get(&self, uid: &str) -> Option<Known> {
        lock(&self.0).runs.get(uid).cloned()
    }

    /// Begins a list of this scope; the items of an unfinished one are dropped.
    pub fn begin(&self, scope: &Scope) {
        lock(&self.0).lists.insert(scope.clone(), HashMap::new());
    }

    pub fn list(&self, scope: &Scope, mut known: Known) {
        let mut table = lock(&self.0);
        let Entries { runs, lists } = &mut *table;
        let uid = known.uid();
        known.share(runs.get(&uid));
        lists.entry(scope.clone()).or_default().insert(uid, known);
    }

    /// `last`: the last version of a Run that this process remembers, and of which the watch has shown this version.
    pub fn listed(
        &self,
        scope: &Scope,
        last: impl Fn(&str, Option<&Arc<Run>>) -> Option<Arc<Run>>,
    ) -> Vec<Change> {
        let mut table = lock(&self.0);
        let Entries { runs, lists } = &mut *table;
        let listed = lists.remove(scope).unwrap_or_default();
        let lacks = |uid: &Arc<str>, known: &mut Known| {
            let [_, namespace, _] = known.identity();
            scope.covers(namespace) && !listed.contains_key(uid)
        };
        let lacking: Vec<_> = runs.extract_if(lacks).collect();
        let mut changes = Vec::new();
        for (uid, old) in lacking {
            let shown = match &old {
                Known::Active(run) | Known::Gone(run) => Some(run),
                _ => None,
            };
            let new = last(&uid, shown).map(Known::Gone);
            let change = replace(runs, uid, new);
            changes.push(Change {
                old: Some(old),
                ..change
            });
        }
        for (uid, known) in listed {
            let change = replace(runs, uid, Some(known));
            if !change.is_nothing() {
                changes.push(change);
            }
        }
        changes
    }

    pub fn put(&self, mut known: Known) -> Change {
        let mut table = lock(&self.0);
        let uid = known.uid();
        known.share(table.runs.get(&uid));
        replace(&mut table.runs, uid, Some(known))
    }

    pub fn gone(&self, uid: &str, last: Option<Arc<Run>>) -> Change {
        let mut table = lock(&self.0);
        replace(&mut table.runs, Arc::from(uid), last.map(Known::Gone))
    }

    /// In one step with `forget`: the watch may show the Run again.
    pub fn forget(&self, uid: &str, forget: impl FnOnce()) -> Option<Change> {
        let mut table = lock(&self.0);
        let gone = matches!(table.runs.get(uid), Some(Known::Gone(_)));
        gone.then(|| {
            forget();
            replace(&mut table.runs, Arc::from(uid), None)
        })
    }

    /// Strips a Run for which nothing is left to do. False if another version of it is here.
    pub fn strip(&self, ended: EndedRun) -> bool {
        let mut table = lock(&self.0);
        let Some(known) = table.runs.get_mut(&ended.object.uid) else {
            return false;
        };
        let same =
            matches!(known, Known::Active(run) if ObjectVersion::of(&run.metadata) == ended.object);
        if same {
            *known = Known::Ended(Arc::new(ended));
        }
        same
    }

    pub fn each(&self, look: impl FnMut(&Known)) {
        lock(&self.0).runs.values().for_each(look);
    }

    /// The first `most` names of Runs that the Workspace at this base URL must outlive, in order.
    pub fn still_needing(
        &self,
        key: &WorkspaceKey,
        base_url: Option<&str>,
        most: usize,
    ) -> Vec<String> {
        let mut names = Vec::new();
        self.each(|known| {
            if known.needs(key, base_url) {
                let [_, namespace, name] = known.identity();
                names.push(key.naming(namespace, name));
            }
        });
        names.sort();
        names.truncate(most);
        names
    }

    /// The Runs whose TTL is over by `wall`. One that is still here a minute later is returned again.
    pub fn take_expired(&self, wall: Timestamp) -> Vec<ObjectVersion> {
        let mut expired = Vec::new();
        for known in lock(&self.0).runs.values_mut() {
            let Known::Ended(ended) = known else { continue };
            if ended.expires.is_some_and(|at| at <= wall) {
                expired.push(ended.object.clone());
                Arc::make_mut(ended).expires = Some(later(wall, DELETED_AGAIN));
            }
        }
        expired
    }
}

fn replace(runs: &mut HashMap<Arc<str>, Known>, uid: Arc<str>, new: Option<Known>) -> Change {
    let old = match &new {
        Some(known) => runs.insert(Arc::clone(&uid), known.clone()),
        None => runs.remove(&uid),
    };
    Change { uid, old, new }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Whose {
    Workspace(WorkspaceKey),
    /// Those of every `ClusterWorkspace` in one namespace.
    Tenants(String),
    /// Those of every `ClusterWorkspace`.
    AllTenants,
    /// Those whose Workspace is not decided yet.
    Undecided,
    All,
}

#[derive(Default)]
pub struct Wakes {
    asked: Mutex<HashSet<Whose>>,
    more: Notify,
}

impl Wakes {
    pub fn ask(&self, whose: Whose) {
        lock(&self.asked).insert(whose);
        self.more.notify_one();
    }

    pub async fn next(&self) -> HashSet<Whose> {
        loop {
            self.more.notified().await;
            let asked = std::mem::take(&mut *lock(&self.asked));
            if !asked.is_empty() {
                return asked;
            }
        }
    }
}

impl Whose {
    /// What concerns a Run that is bound to this Workspace, or to none yet.
    pub fn concerning(namespace: &str, workspace: Option<WorkspaceKey>) -> Vec<Self> {
        let mut all = vec![Self::All];
        let own = workspace.as_ref();
        if own.is_none_or(|key| key.kind == WorkspaceKind::ClusterWorkspace) {
            all.extend([Self::AllTenants, Self::Tenants(namespace.to_owned())]);
        }
        if workspace.is_none() {
            all.push(Self::Undecided);
        }
        let workspace = workspace.unwrap_or_else(|| WorkspaceKey::own_default(namespace));
        all.push(Self::Workspace(workspace));
        all
    }
}

#[cfg(test)]
mod tests;
