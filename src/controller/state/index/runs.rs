//! Index of the Runs of every scope: by uid, by name, by Workspace and by idempotency key.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use crate::api::{Run, WorkspaceKey, workspace_ref::WorkspaceKind};
use crate::controller::apiserver::scope::Scope;
use crate::decide::key_claim::created;
use crate::util::lock;

use super::{
    counts::{RunCounts, Tally},
    keys::Keys,
    record::Record,
    staged::Staged,
};

/// Namespace and name of a Run.
pub type RunRef = (Arc<str>, Arc<str>);

/// The Runs in the stores.
#[derive(Default)]
pub struct RunIndex {
    table: Mutex<Table>,
    staged: Staged<Record>,
}

/// Consequences of one event for one Run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The uid of an object that no longer exists.
    pub deleted: Option<Arc<str>>,
    /// The uid of a live Run that has ended, was deleted, or can no longer be decoded and holds no key.
    pub ended: Option<Arc<str>>,
    /// The namespace and key of that Run, if it had a key of its own.
    pub freed: Option<(Arc<str>, Arc<str>)>,
    /// The Workspace that it no longer needs.
    pub unneeded: Option<Arc<WorkspaceKey>>,
}

#[derive(Default)]
struct Table {
    /// By uid.
    records: HashMap<Arc<str>, Record>,
    /// The uid by namespace and name.
    names: HashMap<Arc<str>, HashMap<Arc<str>, Arc<str>>>,
    /// By the Workspace that they reference.
    workspaces: HashMap<Arc<WorkspaceKey>, Users>,
    /// Runs that a `ClusterWorkspace` concerns, by namespace.
    tenants: Names,
    /// Runs that can't be decoded and have the finalizer, by namespace.
    unreadable: Names,
    keys: Keys,
    tally: Tally,
}

/// The Runs of one Workspace.
#[derive(Default)]
struct Users {
    /// Runs that have not ended, or are being deleted.
    waiting: BTreeSet<RunRef>,
    /// Runs that it must outlive.
    needing: BTreeSet<RunRef>,
}

impl RunIndex {
    /// Begins a list of this scope.
    pub fn begin(&self, scope: &Scope) {
        self.staged.begin(scope);
    }

    /// Adds a Run of a list.
    pub fn list(&self, scope: &Scope, record: Record) {
        self.staged.add(scope, record);
    }

    /// Ends a list, which replaces the Runs of its scope. `missing` is called with the uids that the list lacks, before
    /// they leave the index.
    pub fn listed(&self, scope: &Scope, missing: impl FnOnce(&[Arc<str>])) -> Vec<Change> {
        let records = self.staged.take(scope);
        let there: HashSet<&str> = records.iter().map(|record| &*record.uid).collect();
        let mut table = lock(&self.table);
        let lacking: Vec<Arc<str>> = table
            .uids(scope)
            .filter(|uid| !there.contains(&***uid))
            .cloned()
            .collect();
        missing(&lacking);
        let deleted = lacking.iter().filter_map(|uid| table.remove(uid));
        let mut changes: Vec<Change> = deleted.filter_map(|old| change(Some(old), None)).collect();
        changes.extend(records.into_iter().filter_map(|record| table.put(record)));
        changes
    }

    /// Handles a Run that was created or changed.
    pub fn apply(&self, record: Record) -> Option<Change> {
        lock(&self.table).put(record)
    }

    /// Handles a Run that was deleted.
    pub fn delete(&self, namespace: &str, name: &str) -> Option<Change> {
        let mut table = lock(&self.table);
        let uid = Arc::clone(table.names.get(namespace)?.get(name)?);
        let old = table.remove(&uid);
        change(old, None)
    }

    /// Whether a store has the Run with this uid.
    pub fn contains(&self, uid: &str) -> bool {
        lock(&self.table).records.contains_key(uid)
    }

    /// Records that the Run with this uid is settled. False if there is none.
    pub fn settle(&self, uid: &str) -> bool {
        let mut table = lock(&self.table);
        let record = table.records.get_mut(uid);
        record.is_some_and(|record| {
            record.settled = true;
            true
        })
    }

    /// Whether the Run with this uid is settled, by the version that the watch has shown last.
    pub fn is_settled(&self, uid: &str) -> bool {
        let table = lock(&self.table);
        table.records.get(uid).is_some_and(|record| record.settled)
    }

    /// Name of the Run with this uid, if it is known and has not ended.
    pub fn live_name(&self, uid: &str) -> Option<Arc<str>> {
        let table = lock(&self.table);
        let live = table.records.get(uid).filter(|record| record.live())?;
        Some(Arc::clone(&live.name))
    }

    /// Name of the live Run with the older claim to this Run's key. Most Runs use their uid as the key, and need no
    /// lookup. A Run that has `claimed` the key may have an intent that the watch has not shown: an elder that came
    /// later waits for it.
    pub fn key_holder(&self, run: &Run, claimed: bool) -> Option<Arc<str>> {
        let key = run.spec.idempotency_key.as_deref()?;
        let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
        let uid = run.metadata.uid.as_deref().unwrap_or_default();
        lock(&self.table)
            .keys
            .key_holder(namespace, key, (uid, created(run)), claimed)
    }

    /// Name of the next live Run of those in a namespace that share a key and don't hold it.
    pub fn next_of_key(&self, namespace: &str, key: &str) -> Option<Arc<str>> {
        lock(&self.table).keys.next(namespace, key)
    }

    /// Runs of a Workspace that have not ended or are being deleted.
    pub fn of_workspace(&self, key: &WorkspaceKey) -> Vec<RunRef> {
        let table = lock(&self.table);
        let users = table.workspaces.get(key);
        users.map_or_else(Vec::new, |users| users.waiting.iter().cloned().collect())
    }

    /// Likewise the Runs of every `ClusterWorkspace`: all, or those of one namespace.
    pub fn tenants(&self, of: Option<&str>) -> Vec<RunRef> {
        refs(&lock(&self.table).tenants, of)
    }

    /// All Runs that have not ended or are being deleted.
    pub fn waiting(&self) -> Vec<RunRef> {
        let table = lock(&self.table);
        let users = table.workspaces.values();
        users.flat_map(|u| u.waiting.iter().cloned()).collect()
    }

    /// The Runs that a Workspace must outlive, in the order of their names. A Run that can't be decoded may need any
    /// Workspace that it could reference.
    pub fn needing(&self, key: &WorkspaceKey) -> Vec<RunRef> {
        let table = lock(&self.table);
        let needing = table.workspaces.get(key).map(|users| &users.needing);
        let needing = needing.into_iter().flatten().cloned();
        let own = key.kind == WorkspaceKind::Workspace;
        let unreadable = refs(&table.unreadable, own.then_some(&key.namespace));
        let both: BTreeSet<RunRef> = needing.chain(unreadable).collect();
        both.into_iter().collect()
    }

    /// The current counts.
    pub fn counts(&self) -> RunCounts {
        lock(&self.table).tally.counts()
    }
}

impl Table {
    /// The uids of a scope.
    fn uids(&self, scope: &Scope) -> impl Iterator<Item = &Arc<str>> {
        let (all, one) = match scope {
            Scope::All => (Some(self.names.values()), None),
            Scope::Namespace(namespace) => (None, self.names.get(namespace.as_str())),
        };
        let namespaces = all.into_iter().flatten().chain(one);
        namespaces.flat_map(HashMap::values)
    }

    /// Stores a Run in place of the previous one with its name.
    fn put(&mut self, mut record: Record) -> Option<Change> {
        let named = self.names.get(&*record.namespace);
        let uid = named.and_then(|names| names.get(&*record.name)).cloned();
        let old = uid.and_then(|uid| self.remove(&uid));
        if let Some(old) = &old {
            record.keep_key(old);
        }
        let change = change(old, Some(&record));
        self.insert(record);
        change
    }

    fn insert(&mut self, mut record: Record) {
        self.share(&mut record);
        self.tally.insert(&record);
        if record.unreadable {
            put(&mut self.unreadable, &record);
        }
        if let Some(details) = &record.details {
            let one = (Arc::clone(&record.namespace), Arc::clone(&record.name));
            let workspace = Arc::clone(&details.workspace);
            let shared = workspace.kind == WorkspaceKind::ClusterWorkspace;
            let users = self.workspaces.entry(workspace).or_default();
            if details.needs {
                users.needing.insert(one.clone());
            }
            if details.waits {
                users.waiting.insert(one);
                if shared {
                    put(&mut self.tenants, &record);
                }
            }
        }
        if let Some(claim) = record.claim() {
            self.keys.insert(&record, claim);
        }
        let names = self.names.entry(Arc::clone(&record.namespace)).or_default();
        names.insert(Arc::clone(&record.name), Arc::clone(&record.uid));
        self.records.insert(Arc::clone(&record.uid), record);
    }

    /// Shares namespaces and Workspaces between records.
    fn share(&self, record: &mut Record) {
        if let Some((namespace, _)) = self.names.get_key_value(&*record.namespace) {
            record.namespace = Arc::clone(namespace);
        }
        if let Some(details) = &mut record.details
            && let Some((workspace, _)) = self.workspaces.get_key_value(&*details.workspace)
        {
            details.workspace = Arc::clone(workspace);
        }
    }

    fn remove(&mut self, uid: &str) -> Option<Record> {
        let record = self.records.remove(uid)?;
        self.tally.remove(&record);
        if record.unreadable {
            take(&mut self.unreadable, &record);
        }
        if let Some(details) = &record.details {
            let one = (Arc::clone(&record.namespace), Arc::clone(&record.name));
            if let Some(users) = self.workspaces.get_mut(&*details.workspace) {
                users.waiting.remove(&one);
                users.needing.remove(&one);
                if users.waiting.is_empty() && users.needing.is_empty() {
                    self.workspaces.remove(&*details.workspace);
                }
            }
            take(&mut self.tenants, &record);
        }
        if let Some(claim) = record.claim() {
            self.keys.remove(&record, claim);
        }
        if let Some(names) = self.names.get_mut(&record.namespace) {
            names.remove(&record.name);
            if names.is_empty() {
                self.names.remove(&record.namespace);
            }
        }
        Some(record)
    }
}

/// Names by namespace.
type Names = HashMap<Arc<str>, BTreeSet<Arc<str>>>;

fn put(names: &mut Names, record: &Record) {
    let namespace = names.entry(Arc::clone(&record.namespace)).or_default();
    namespace.insert(Arc::clone(&record.name));
}

fn take(names: &mut Names, record: &Record) {
    if let Some(namespace) = names.get_mut(&record.namespace) {
        namespace.remove(&record.name);
        if namespace.is_empty() {
            names.remove(&record.namespace);
        }
    }
}

/// The names of all namespaces, or those of one.
fn refs(names: &Names, of: Option<&str>) -> Vec<RunRef> {
    let in_full = |(namespace, names): (&Arc<str>, &BTreeSet<Arc<str>>)| {
        let full = |name| (Arc::clone(namespace), Arc::clone(name));
        names.iter().map(full).collect::<Vec<_>>()
    };
    match of {
        Some(namespace) => names
            .get_key_value(namespace)
            .map_or_else(Vec::new, in_full),
        None => names.iter().flat_map(in_full).collect(),
    }
}

/// The consequences of replacing `old` with `new`.
fn change(old: Option<Record>, new: Option<&Record>) -> Option<Change> {
    let old = old?;
    let same = new.filter(|new| new.uid == old.uid);
    let ended = old.live() && !same.is_some_and(Record::live);
    let unneeded = old
        .needs()
        .filter(|_| same.is_none_or(|new| new.needs().is_none()));
    let change = Change {
        unneeded: unneeded.cloned(),
        freed: old
            .claim()
            .filter(|_| ended)
            .map(|claim| (Arc::clone(&old.namespace), Arc::clone(&claim.key))),
        ended: ended.then(|| Arc::clone(&old.uid)),
        deleted: same.is_none().then(|| Arc::clone(&old.uid)),
    };
    (change != Change::default()).then_some(change)
}
