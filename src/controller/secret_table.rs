//! Which Secrets the Workspaces name, which versions of them were read, and which are watched. What no
//! Workspace names any more is not kept.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// Told when a Workspace that named some is gone.
    pub unnamed: Notify,
}

#[derive(Default)]
struct Table {
    named: HashMap<Key, BTreeMap<SecretName, Read>>,
    watches: HashMap<Watched, Watch>,
}

impl SecretTable {
    /// A Workspace names these Secrets now. Returns whether it named others before.
    pub fn name(&self, workspace: &Key, secrets: BTreeSet<SecretName>) -> bool {
        let mut table = lock(&self.table);
        let before = table.named.entry(workspace.clone()).or_default();
        if before.keys().eq(&secrets) {
            return false;
        }
        let kept = |secret: SecretName| {
            let read = before.remove(&secret).unwrap_or_default();
            (secret, read)
        };
        *before = secrets.into_iter().map(kept).collect();
        true
    }

    /// Forgets the Workspaces that are gone, and has the watches ended that only they needed.
    pub fn forget_all_but(&self, there: impl Fn(&Key) -> bool) {
        let mut table = lock(&self.table);
        let before = table.named.len();
        table.named.retain(|key, _| there(key));
        if table.named.len() < before {
            self.unnamed.notify_one();
        }
    }

    /// What a Workspace has just read.
    pub fn note(&self, workspace: &Key, secret: &SecretName, read: Read) {
        let mut table = lock(&self.table);
        let named = table.named.get_mut(workspace);
        if let Some(noted) = named.and_then(|named| named.get_mut(secret)) {
            *noted = read;
        }
    }

    /// The Workspaces that name this Secret and last read something else of it.
    pub fn outdated(&self, secret: &SecretName, now: &Read) -> Vec<Key> {
        let table = lock(&self.table);
        let outdated = table
            .named
            .iter()
            .filter(|(_, named)| named.get(secret).is_some_and(|read| read != now));
        outdated.map(|(key, _)| key.clone()).collect()
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
        let secrets = table.secrets().map(|(_, secret)| secret);
        secrets.filter(within).cloned().collect()
    }

    /// The Secrets that were read and that no established watch covers.
    pub fn uncovered(&self) -> BTreeSet<SecretName> {
        let table = lock(&self.table);
        let read = table.named.values().flatten();
        read.filter(|(secret, read)| **read != Read::Unread && !table.covered(secret))
            .map(|(secret, _)| secret.clone())
            .collect()
    }

    /// Notes how a watch stands. Returns how it stood; `None` where it isn't wanted any more.
    pub fn set_coverage(&self, watched: &Watched, coverage: Coverage) -> Option<Coverage> {
        let mut table = lock(&self.table);
        let watch = table.watches.get_mut(watched)?;
        Some(std::mem::replace(&mut watch.coverage, coverage))
    }

    /// Ends the watches that no Workspace needs, and starts those that are missing. `cluster_wide`: one
    /// filtered watch serves all namespaces, unless RBAC forbids it; then each namespace has its own.
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
    fn secrets(&self) -> impl Iterator<Item = (&Key, &SecretName)> {
        let named = self.named.iter();
        named.flat_map(|(key, named)| named.keys().map(move |secret| (key, secret)))
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

    fn wanted(&self, cluster_wide: bool) -> HashSet<Watched> {
        let mut wanted = HashSet::new();
        for (workspace, secret) in self.secrets() {
            // All ClusterWorkspaces have theirs in one namespace.
            let cluster_wide = cluster_wide && workspace.kind == WorkspaceKind::Workspace;
            let mut want = |scope| {
                wanted.insert(Watched {
                    scope,
                    name: secret.name.clone(),
                })
            };
            if cluster_wide {
                want(Scope::All);
            }
            let refused = self.coverage(Scope::All, &secret.name) == Some(Coverage::Forbidden);
            if !cluster_wide || refused {
                want(Scope::Namespace(secret.namespace.clone()));
            }
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(namespace: &str) -> Key {
        Key {
            kind: WorkspaceKind::Workspace,
            namespace: namespace.to_owned(),
            name: "default".to_owned(),
        }
    }

    fn secret(namespace: &str, name: &str) -> SecretName {
        SecretName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    fn version(version: &str) -> Read {
        Read::Version(Some(version.to_owned()))
    }

    /// A table in which the Workspace `default` of each namespace names `token`.
    fn table(namespaces: &[&str]) -> SecretTable {
        let table = SecretTable::default();
        for namespace in namespaces {
            let names = [secret(namespace, "token")].into();
            assert!(table.name(&workspace(namespace), names));
        }
        table
    }

    /// Settles with tasks that do nothing, and tells what is watched.
    fn settled(table: &SecretTable, cluster_wide: bool) -> BTreeSet<String> {
        table.settle(cluster_wide, |_| {
            tokio::spawn(std::future::pending::<()>()).abort_handle()
        });
        let table = lock(&table.table);
        let watched = table.watches.keys();
        watched
            .map(|w| format!("{:?} {}", w.scope, w.name))
            .collect()
    }

    #[test]
    fn a_change_is_news_to_each_workspace_that_has_not_read_it() {
        let table = table(&["a"]);
        let other = Key {
            name: "other".to_owned(),
            ..workspace("a")
        };
        table.name(&other, [secret("a", "token")].into());
        let token = secret("a", "token");
        for key in [&workspace("a"), &other] {
            table.note(key, &token, version("1"));
        }
        assert_eq!(table.outdated(&token, &version("1")), []);
        assert_eq!(table.outdated(&token, &version("2")).len(), 2);
        // The one read it by itself before the watch told of it; the other still has to.
        table.note(&workspace("a"), &token, version("2"));
        assert_eq!(table.outdated(&token, &version("2")), [other]);
        assert_eq!(table.outdated(&secret("b", "token"), &version("2")), []);
    }

    #[tokio::test]
    async fn what_no_workspace_names_is_neither_watched_nor_kept() {
        let table = table(&["a"]);
        table.note(&workspace("a"), &secret("a", "token"), version("1"));
        assert_eq!(settled(&table, true), ["All token".to_owned()].into());
        assert!(table.name(&workspace("a"), [secret("a", "new")].into()));
        assert_eq!(settled(&table, true), ["All new".to_owned()].into());
        table.forget_all_but(|_| false);
        assert_eq!(settled(&table, true), [].into());
        // A check that was under way brings nothing back.
        table.note(&workspace("a"), &secret("a", "new"), version("2"));
        assert!(lock(&table.table).named.is_empty());
        assert_eq!(table.uncovered(), [].into());
    }

    #[tokio::test]
    async fn where_the_watch_of_all_is_forbidden_each_namespace_has_its_own() {
        let table = table(&["a", "b"]);
        for namespace in ["a", "b"] {
            let token = secret(namespace, "token");
            table.note(&workspace(namespace), &token, version("1"));
        }
        let all = Watched {
            scope: Scope::All,
            name: "token".to_owned(),
        };
        settled(&table, true);
        assert_eq!(table.uncovered().len(), 2, "not listed yet");
        assert_eq!(table.named_within(&all).len(), 2);
        table.set_coverage(&all, Coverage::Forbidden);
        let three = [
            "All token",
            "Namespace(\"a\") token",
            "Namespace(\"b\") token",
        ];
        assert_eq!(settled(&table, true), three.map(str::to_owned).into());
        let one = Watched {
            scope: Scope::Namespace("a".to_owned()),
            name: "token".to_owned(),
        };
        table.set_coverage(&one, Coverage::Established);
        assert_eq!(table.uncovered(), [secret("b", "token")].into());
        table.set_coverage(&all, Coverage::Established);
        assert_eq!(settled(&table, true), ["All token".to_owned()].into());
        assert_eq!(table.uncovered(), [].into());
    }

    #[tokio::test]
    async fn the_secret_of_a_cluster_workspace_is_watched_in_its_one_namespace() {
        let table = table(&["a"]);
        let shared = Key {
            kind: WorkspaceKind::ClusterWorkspace,
            ..workspace("")
        };
        table.name(&shared, [secret("operators", "token")].into());
        let two = ["All token", "Namespace(\"operators\") token"];
        assert_eq!(settled(&table, true), two.map(str::to_owned).into());
    }

    #[test]
    fn a_secret_that_can_not_be_read_is_left_to_the_checks() {
        let table = table(&["a"]);
        assert_eq!(table.uncovered(), [].into());
        table.note(&workspace("a"), &secret("a", "token"), Read::Version(None));
        assert_eq!(table.uncovered(), [secret("a", "token")].into());
        table.note(&workspace("a"), &secret("a", "token"), Read::Unread);
        assert_eq!(table.uncovered(), [].into());
    }
}
