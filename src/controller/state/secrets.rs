//! The Secrets that Workspaces name, the versions of them that were read, and their watches. Secrets that no Workspace
//! names are not kept.
//!
//! A watch can filter by only one name, so that the number of watches is limited: the names that most Secrets have are
//! watched. The others are read periodically.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Mutex;

use tokio::{sync::Notify, task::AbortHandle};

use crate::api::{WorkspaceKey, workspace_ref::WorkspaceKind};
use crate::controller::apiserver::scope::Scope;
use crate::util::lock;

/// A Secret by its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretName {
    pub namespace: String,
    pub name: String,
}

/// Limit on watches at the same time.
pub const WATCHES: usize = 32;

/// Last read of a Secret by a Workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Read {
    /// Not read yet, or forbidden by RBAC.
    #[default]
    Unread,
    /// This resourceVersion; `None` if there was no Secret.
    Version(Option<String>),
}

/// One watch: the Secrets of one name within a scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Watched {
    /// Its scope.
    pub scope: Scope,
    /// The name that it filters by.
    pub name: String,
}

/// State of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Started; not listed yet.
    Starting,
    /// Its list succeeded, and it has not failed since.
    Established,
    /// It failed, and is retried soon.
    Failed,
    /// RBAC forbids it; it is retried slowly.
    Forbidden,
}

struct Watch {
    coverage: Coverage,
    task: AbortHandle,
}

/// All named Secrets.
#[derive(Default)]
pub struct SecretTable {
    table: Mutex<Table>,
    /// Notified when other Secrets are named, or may be read, than before.
    pub changed: Notify,
}

#[derive(Default)]
struct Table {
    named: HashMap<WorkspaceKey, BTreeMap<SecretName, Read>>,
    /// The Workspaces that name each Secret.
    users: BTreeMap<SecretName, HashSet<WorkspaceKey>>,
    watches: HashMap<Watched, Watch>,
    /// Watches that RBAC forbids, including those beyond the limit.
    forbidden: HashSet<Watched>,
}

impl SecretTable {
    /// Sets the Secrets that a Workspace names.
    pub fn name(&self, workspace: &WorkspaceKey, secrets: BTreeSet<SecretName>) {
        if lock(&self.table).name(workspace, secrets) {
            self.changed.notify_one();
        }
    }

    /// Forgets deleted Workspaces, and requests the end of the watches that only they needed.
    pub fn forget_all_but(&self, there: impl Fn(&WorkspaceKey) -> bool) {
        let mut table = lock(&self.table);
        let deleted: Vec<WorkspaceKey> = table
            .named
            .keys()
            .filter(|key| !there(key))
            .cloned()
            .collect();
        for key in &deleted {
            table.name(key, BTreeSet::new());
            table.named.remove(key);
        }
        if !deleted.is_empty() {
            self.changed.notify_one();
        }
    }

    /// Records a Workspace's read of a Secret. A Secret that may be read may usually be watched.
    pub fn note(&self, workspace: &WorkspaceKey, secret: &SecretName, read: Read) {
        let mut table = lock(&self.table);
        let named = table.named.get_mut(workspace);
        if let Some(noted) = named.and_then(|named| named.get_mut(secret)) {
            let readable = |read: &Read| *read != Read::Unread;
            if readable(noted) != readable(&read) {
                self.changed.notify_one();
            }
            *noted = read;
        }
    }

    /// The Workspaces that name this Secret and last read another version of it.
    pub fn outdated(&self, secret: &SecretName, now: &Read) -> Vec<WorkspaceKey> {
        let table = lock(&self.table);
        let users = table.users.get(secret).into_iter().flatten();
        let outdated = users.filter(|key| table.read(key, secret).is_some_and(|read| read != now));
        outdated.cloned().collect()
    }

    /// The named Secrets that a watch covers.
    pub fn named_within(&self, watched: &Watched) -> BTreeSet<SecretName> {
        let table = lock(&self.table);
        let within = |secret: &&SecretName| {
            secret.name == watched.name
                && match &watched.scope {
                    Scope::All => true,
                    Scope::Namespace(namespace) => *namespace == secret.namespace,
                }
        };
        table.users.keys().filter(within).cloned().collect()
    }

    /// Number of readable Secrets that no established watch covers.
    pub fn uncovered(&self) -> usize {
        let table = lock(&self.table);
        table.uncovered(table.users.keys()).count()
    }

    /// The next of them after this one, at most `most`; continues from the beginning at the end.
    pub fn next_uncovered(&self, after: Option<&SecretName>, most: usize) -> Vec<SecretName> {
        let table = lock(&self.table);
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = table.users.range((start, Bound::Unbounded));
        let before = after.map(|after| table.users.range(..=after));
        let round = behind.chain(before.into_iter().flatten());
        let next = table.uncovered(round.map(|(secret, _)| secret));
        next.take(most).cloned().collect()
    }

    /// Records a watch's state. Returns the previous one; `None` if the watch is not wanted.
    pub fn set_coverage(&self, watched: &Watched, coverage: Coverage) -> Option<Coverage> {
        let mut table = lock(&self.table);
        let watch = table.watches.get_mut(watched)?;
        let before = std::mem::replace(&mut watch.coverage, coverage);
        match coverage {
            Coverage::Forbidden => drop(table.forbidden.insert(watched.clone())),
            Coverage::Established => drop(table.forbidden.remove(watched)),
            Coverage::Starting | Coverage::Failed => {}
        }
        Some(before)
    }

    /// Ends the watches that no Workspace needs, and starts the missing ones. `cluster_wide`: one filtered watch serves
    /// all namespaces, unless RBAC forbids it; then each namespace has its own. At most [`WATCHES`] in all.
    pub fn update_watches(&self, cluster_wide: bool, start: impl Fn(&Watched) -> AbortHandle) {
        let mut table = lock(&self.table);
        let wanted = table.wanted(cluster_wide);
        table.watches.retain(|watched, watch| {
            let keep = wanted.contains(watched);
            if !keep {
                watch.task.abort();
            }
            keep
        });
        for watched in wanted {
            table
                .watches
                .entry(watched)
                .or_insert_with_key(|watched| Watch {
                    coverage: Coverage::Starting,
                    task: start(watched),
                });
        }
    }
}

impl Table {
    /// Returns whether the Workspace named other Secrets before.
    fn name(&mut self, workspace: &WorkspaceKey, secrets: BTreeSet<SecretName>) -> bool {
        let before = self.named.entry(workspace.clone()).or_default();
        if before.keys().eq(&secrets) {
            return false;
        }
        let dropped: Vec<SecretName> = before
            .keys()
            .filter(|secret| !secrets.contains(*secret))
            .cloned()
            .collect();
        for secret in &secrets {
            let users = self.users.entry(secret.clone()).or_default();
            users.insert(workspace.clone());
        }
        let kept = |secret: SecretName| {
            let read = before.remove(&secret).unwrap_or_default();
            (secret, read)
        };
        *before = secrets.into_iter().map(kept).collect();
        for secret in dropped {
            if let Some(users) = self.users.get_mut(&secret) {
                users.remove(workspace);
                if users.is_empty() {
                    self.users.remove(&secret);
                }
            }
        }
        true
    }

    fn read(&self, workspace: &WorkspaceKey, secret: &SecretName) -> Option<&Read> {
        self.named.get(workspace)?.get(secret)
    }

    /// Whether a Workspace has read it: RBAC allows reads, and then usually watches.
    fn readable(&self, secret: &SecretName) -> bool {
        let users = self.users.get(secret).into_iter().flatten();
        users
            .filter_map(|key| self.read(key, secret))
            .any(|read| *read != Read::Unread)
    }

    fn uncovered<'a>(
        &'a self,
        secrets: impl Iterator<Item = &'a SecretName> + 'a,
    ) -> impl Iterator<Item = &'a SecretName> + 'a {
        secrets.filter(|secret| self.readable(secret) && !self.covered(secret))
    }

    fn coverage(&self, scope: Scope, name: &str) -> Option<Coverage> {
        let name = name.to_owned();
        let watch = self.watches.get(&Watched { scope, name })?;
        Some(watch.coverage)
    }

    fn forbidden(&self, scope: Scope, name: &str) -> bool {
        let name = name.to_owned();
        self.forbidden.contains(&Watched { scope, name })
    }

    fn covered(&self, secret: &SecretName) -> bool {
        let own = Scope::Namespace(secret.namespace.clone());
        [Scope::All, own]
            .into_iter()
            .any(|scope| self.coverage(scope, &secret.name) == Some(Coverage::Established))
    }

    /// The watches that cover the most Secrets. An existing watch is replaced only by one that covers more than twice
    /// as many, since each begins with a list. A forbidden watch covers nothing: it is tried while there is room.
    fn wanted(&mut self, cluster_wide: bool) -> HashSet<Watched> {
        let mut useful: HashMap<Watched, usize> = HashMap::new();
        for (secret, users) in self.users.iter().filter(|(s, _)| self.readable(s)) {
            // All ClusterWorkspaces have their Secrets in one namespace.
            let everywhere =
                cluster_wide && users.iter().any(|key| key.kind == WorkspaceKind::Workspace);
            let here = !everywhere
                || users
                    .iter()
                    .any(|key| key.kind == WorkspaceKind::ClusterWorkspace)
                || self.forbidden(Scope::All, &secret.name);
            let own = here.then(|| Scope::Namespace(secret.namespace.clone()));
            let all = everywhere.then_some(Scope::All);
            for scope in all.into_iter().chain(own) {
                let name = secret.name.clone();
                *useful.entry(Watched { scope, name }).or_default() += 1;
            }
        }
        self.forbidden
            .retain(|watched| useful.contains_key(watched));
        let mut wanted: Vec<(Watched, usize)> = useful.into_iter().collect();
        wanted.sort_by_cached_key(|(watched, secrets)| {
            let there = self.watches.contains_key(watched);
            let weight = match (self.forbidden.contains(watched), there) {
                (true, _) => 0,
                (false, true) => secrets * 2,
                (false, false) => *secrets,
            };
            (Reverse((weight, there)), watched.clone())
        });
        wanted.truncate(WATCHES);
        wanted.into_iter().map(|(watched, _)| watched).collect()
    }
}

#[cfg(test)]
mod tests;
