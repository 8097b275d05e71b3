//! The Secrets that Workspaces name, the versions of them that were read, and their watches. Secrets that no Workspace
//! names are not kept.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;

use tokio::{sync::Notify, task::AbortHandle};

use crate::api::{WorkspaceKey, WorkspaceKind};
use crate::controller::apiserver::Scope;
use crate::util::lock;

/// Limit on watches at the same time: one can filter by only one name.
const WATCHES: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretName {
    pub namespace: String,
    pub name: String,
}

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
    pub scope: Scope,
    pub name: String,
}

impl Watched {
    /// The watch that shows this Workspace's Secret. All ClusterWorkspaces have their Secrets in one namespace.
    fn of(workspace: &WorkspaceKey, secret: &SecretName, cluster_wide: bool) -> Self {
        let scope = if cluster_wide && workspace.kind == WorkspaceKind::Workspace {
            Scope::All
        } else {
            Scope::Namespace(secret.namespace.clone())
        };
        let name = secret.name.clone();
        Self { scope, name }
    }

    fn shows(&self, secret: &SecretName) -> bool {
        self.scope.covers(&secret.namespace) && self.name == secret.name
    }
}

struct Watch {
    /// Its list succeeded, and it has not failed since.
    listed: bool,
    task: AbortHandle,
}

#[derive(Default)]
pub struct SecretTable {
    table: Mutex<Named>,
    /// Notified when other Secrets are named, or may be read, than before.
    pub changed: Notify,
}

#[derive(Default)]
struct Named {
    named: HashMap<WorkspaceKey, BTreeMap<SecretName, Read>>,
    watches: BTreeMap<Watched, Watch>,
}

impl SecretTable {
    pub fn name(&self, workspace: &WorkspaceKey, secrets: BTreeSet<SecretName>) {
        let mut table = lock(&self.table);
        let named = table.named.entry(workspace.clone()).or_default();
        if named.keys().eq(&secrets) {
            return;
        }
        let mut before = std::mem::take(named);
        named.extend(secrets.into_iter().map(|secret| {
            let read = before.remove(&secret).unwrap_or_default();
            (secret, read)
        }));
        self.changed.notify_one();
    }

    /// Forgets deleted Workspaces, and requests the end of the watches that only they needed.
    pub fn forget_all_but(&self, there: impl Fn(&WorkspaceKey) -> bool) {
        let mut table = lock(&self.table);
        let before = table.named.len();
        table.named.retain(|key, _| there(key));
        if table.named.len() != before {
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

    pub fn outdated(&self, secret: &SecretName, now: &Read) -> Vec<WorkspaceKey> {
        let table = lock(&self.table);
        let outdated = table.named.iter().filter(|(_, named)| {
            let read = named.get(secret);
            read.is_some_and(|read| read != now)
        });
        outdated.map(|(workspace, _)| workspace.clone()).collect()
    }

    pub fn shown_by(&self, watched: &Watched) -> BTreeSet<SecretName> {
        let table = lock(&self.table);
        let named = table.named.values().flat_map(BTreeMap::keys);
        named
            .filter(|secret| watched.shows(secret))
            .cloned()
            .collect()
    }

    pub fn unwatched(&self) -> BTreeSet<SecretName> {
        let table = lock(&self.table);
        let watched = |secret: &SecretName| {
            let mut watches = table.watches.iter();
            watches.any(|(watched, watch)| watch.listed && watched.shows(secret))
        };
        let secrets = table.readable().map(|(_, secret)| secret);
        secrets.filter(|secret| !watched(secret)).cloned().collect()
    }

    pub fn set_listed(&self, watched: &Watched, listed: bool) {
        if let Some(watch) = lock(&self.table).watches.get_mut(watched) {
            watch.listed = listed;
        }
    }

    /// [`WATCHES`] in all. `cluster_wide`: one watch serves all namespaces.
    pub fn update_watches(&self, cluster_wide: bool, start: impl Fn(&Watched) -> AbortHandle) {
        let mut table = lock(&self.table);
        let needed = table.readable();
        let needed: BTreeSet<Watched> = needed
            .map(|(workspace, secret)| Watched::of(workspace, secret, cluster_wide))
            .collect();
        table.watches.retain(|watched, watch| {
            let keep = needed.contains(watched);
            if !keep {
                watch.task.abort();
            }
            keep
        });
        for watched in needed {
            if table.watches.len() < WATCHES {
                let watch = |watched: &Watched| Watch {
                    listed: false,
                    task: start(watched),
                };
                table.watches.entry(watched).or_insert_with_key(watch);
            }
        }
    }
}

impl Named {
    fn readable(&self) -> impl Iterator<Item = (&WorkspaceKey, &SecretName)> {
        self.named.iter().flat_map(|(workspace, named)| {
            let read = named.iter().filter(|(_, read)| **read != Read::Unread);
            read.map(move |(secret, _)| (workspace, secret))
        })
    }
}

#[cfg(test)]
mod tests;
