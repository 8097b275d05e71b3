//! Which Secrets the Workspaces name, which versions of them were read, and which are watched. What no
//! Workspace names any more is not kept.
//!
//! A watch can be filtered by one name only, so that the watches are bounded: those names are watched that most
//! Secrets have. The others are read again from time to time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Mutex;

use tokio::{sync::Notify, task::AbortHandle};

use crate::api::run::WorkspaceKind;

use super::{context::lock, registry::Key, scope::Scope};

/// A Secret by its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Watches at the same time.
pub const WATCHES: usize = 32;

/// What a Workspace last read of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Read {
    /// Nothing yet, or nothing that RBAC allows.
    #[default]
    Unread,
    /// This resourceVersion; `None` where there was no Secret.
    Version(Option<String>),
}

/// One watch: the Secrets of one name within a scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Watched {
    /// Its reach.
    pub scope: Scope,
    /// The name that it filters by.
    pub name: String,
}

/// How a watch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Begun; not listed yet.
    Starting,
    /// Its list succeeded, and it did not fail since.
    Established,
    /// It failed, and is tried again soon.
    Failed,
    /// RBAC forbids it; it is tried again slowly.
    Forbidden,
}

struct Watch {
    coverage: Coverage,
    task: AbortHandle,
}

/// All Secrets that are named.
#[derive(Default)]
pub struct SecretTable {
    table: Mutex<Table>,
    /// Told when other Secrets are named, or may be read, than before.
    pub changed: Notify,
}

#[derive(Default)]
struct Table {
    named: HashMap<Key, BTreeMap<SecretName, Read>>,
    /// The Workspaces that name each Secret.
    users: BTreeMap<SecretName, HashSet<Key>>,
    watches: HashMap<Watched, Watch>,
}

impl SecretTable {
    /// A Workspace names these Secrets now.
    pub fn name(&self, workspace: &Key, secrets: BTreeSet<SecretName>) {
        if lock(&self.table).name(workspace, secrets) {
            self.changed.notify_one();
        }
    }

    /// Forgets the Workspaces that are gone, and has the watches ended that only they needed.
    pub fn forget_all_but(&self, there: impl Fn(&Key) -> bool) {
        let mut table = lock(&self.table);
        let gone: Vec<Key> = table
            .named
            .keys()
            .filter(|key| !there(key))
            .cloned()
            .collect();
        for key in &gone {
            table.name(key, BTreeSet::new());
            table.named.remove(key);
        }
        if !gone.is_empty() {
            self.changed.notify_one();
        }
    }

    /// A Workspace has just read this of a Secret. One that may be read may be watched too.
    pub fn note(&self, workspace: &Key, secret: &SecretName, read: Read) {
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

    /// The Workspaces that name this Secret and last read something else of it.
    pub fn outdated(&self, secret: &SecretName, now: &Read) -> Vec<Key> {
        let table = lock(&self.table);
        let users = table.users.get(secret).into_iter().flatten();
        let outdated = users.filter(|key| table.read(key, secret).is_some_and(|read| read != now));
        outdated.cloned().collect()
    }

    /// The Secrets that a watch is there for.
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

    /// How many Secrets were read that no established watch covers.
    pub fn uncovered(&self) -> usize {
        let table = lock(&self.table);
        table.uncovered(table.users.keys()).count()
    }

    /// The next of them behind this one, at most so many; from the beginning again at the end.
    pub fn next_uncovered(&self, after: Option<&SecretName>, most: usize) -> Vec<SecretName> {
        let table = lock(&self.table);
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = table.users.range((start, Bound::Unbounded));
        let before = after.map(|after| table.users.range(..=after));
        let round = behind.chain(before.into_iter().flatten());
        let next = table.uncovered(round.map(|(secret, _)| secret));
        next.take(most).cloned().collect()
    }

    /// Notes how a watch stands. Returns how it stood; `None` where it isn't wanted any more.
    pub fn set_coverage(&self, watched: &Watched, coverage: Coverage) -> Option<Coverage> {
        let mut table = lock(&self.table);
        let watch = table.watches.get_mut(watched)?;
        Some(std::mem::replace(&mut watch.coverage, coverage))
    }

    /// Ends the watches that no Workspace needs, and starts those that are missing. `cluster_wide`: one
    /// filtered watch serves all namespaces, unless RBAC forbids it; then each namespace has its own. At most
    /// [`WATCHES`] in all.
    pub fn settle(&self, cluster_wide: bool, start: impl Fn(&Watched) -> AbortHandle) {
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
    /// Returns whether the Workspace named others before.
    fn name(&mut self, workspace: &Key, secrets: BTreeSet<SecretName>) -> bool {
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

    fn read(&self, workspace: &Key, secret: &SecretName) -> Option<&Read> {
        self.named.get(workspace)?.get(secret)
    }

    /// Whether a Workspace has read it: RBAC allows that, and then a watch as a rule.
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

    fn covered(&self, secret: &SecretName) -> bool {
        let own = Scope::Namespace(secret.namespace.clone());
        [Scope::All, own]
            .into_iter()
            .any(|scope| self.coverage(scope, &secret.name) == Some(Coverage::Established))
    }

    /// The watches that cover most Secrets. One that is there is given up only for one that covers more than twice
    /// as many: each begins with a list.
    fn wanted(&self, cluster_wide: bool) -> HashSet<Watched> {
        let mut useful: HashMap<Watched, usize> = HashMap::new();
        for (secret, users) in self.users.iter().filter(|(s, _)| self.readable(s)) {
            // All ClusterWorkspaces have theirs in one namespace.
            let everywhere =
                cluster_wide && users.iter().any(|key| key.kind == WorkspaceKind::Workspace);
            let here = !everywhere
                || users
                    .iter()
                    .any(|key| key.kind == WorkspaceKind::ClusterWorkspace)
                || self.coverage(Scope::All, &secret.name) == Some(Coverage::Forbidden);
            let own = here.then(|| Scope::Namespace(secret.namespace.clone()));
            let all = everywhere.then_some(Scope::All);
            for scope in all.into_iter().chain(own) {
                let name = secret.name.clone();
                *useful.entry(Watched { scope, name }).or_default() += 1;
            }
        }
        let mut wanted: Vec<(Watched, usize)> = useful.into_iter().collect();
        wanted.sort_by_cached_key(|(watched, secrets)| {
            let there = self.watches.contains_key(watched);
            let weight = if there { secrets * 2 } else { *secrets };
            (Reverse((weight, there)), watched.clone())
        });
        wanted.truncate(WATCHES);
        wanted.into_iter().map(|(watched, _)| watched).collect()
    }
}

#[cfg(test)]
#[path = "secret_table_tests.rs"]
mod tests;
