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
            let token = secret(namespace, "token");
            table.name(&workspace(namespace), [token.clone()].into());
            table.note(&workspace(namespace), &token, version("1"));
        }
        table
    }

    /// The Secrets that are read again from time to time.
    fn reread(table: &SecretTable) -> BTreeSet<SecretName> {
        let all = table.next_uncovered(None, usize::MAX);
        assert_eq!(table.uncovered(), all.len());
        all.into_iter().collect()
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
        assert_eq!(settled(&table, true), ["All token".to_owned()].into());
        table.name(&workspace("a"), [secret("a", "new")].into());
        assert_eq!(settled(&table, true), [].into(), "nobody has read it yet");
        table.note(&workspace("a"), &secret("a", "new"), version("1"));
        assert_eq!(settled(&table, true), ["All new".to_owned()].into());
        table.forget_all_but(|_| false);
        assert_eq!(settled(&table, true), [].into());
        // A check that was in flight brings nothing back.
        table.note(&workspace("a"), &secret("a", "new"), version("2"));
        let kept = lock(&table.table);
        assert!(kept.named.is_empty() && kept.users.is_empty());
    }

    #[tokio::test]
    async fn the_watches_are_bounded_and_the_names_that_most_secrets_have_go_first() {
        let table = SecretTable::default();
        let name = |namespace: &str, secret_name: &str| {
            let named = secret(namespace, secret_name);
            table.name(&workspace(namespace), [named.clone()].into());
            table.note(&workspace(namespace), &named, version("1"));
        };
        for n in 0..2000 {
            name(&format!("own-{n:04}"), &format!("token-{n:04}"));
        }
        let before = settled(&table, true);
        assert_eq!(before.len(), WATCHES);
        assert_eq!(table.uncovered(), 2000, "none is established");
        // A name that comes later displaces none that is as useful; one that is more useful does.
        name("own-x", "aaa");
        assert_eq!(settled(&table, true), before);
        for n in 0..3 {
            name(&format!("shared-{n}"), "token");
        }
        let after = settled(&table, true);
        assert!(after.contains("All token") && after.len() == WATCHES);
    }

    #[test]
    fn what_no_watch_covers_is_read_again_in_turn() {
        let table = table(&["a", "b", "c"]);
        let names = |after: Option<&SecretName>, most| {
            let next = table.next_uncovered(after, most).into_iter();
            next.map(|secret| secret.namespace).collect::<Vec<_>>()
        };
        assert_eq!(names(None, 2), ["a", "b"]);
        assert_eq!(names(Some(&secret("b", "token")), 2), ["c", "a"]);
        assert_eq!(names(Some(&secret("b", "token")), 9), ["c", "a", "b"]);
    }

    #[tokio::test]
    async fn where_the_watch_of_all_is_forbidden_each_namespace_has_its_own() {
        let table = table(&["a", "b"]);
        let all = Watched {
            scope: Scope::All,
            name: "token".to_owned(),
        };
        settled(&table, true);
        assert_eq!(reread(&table).len(), 2, "not listed yet");
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
        assert_eq!(reread(&table), [secret("b", "token")].into());
        table.set_coverage(&all, Coverage::Established);
        assert_eq!(settled(&table, true), ["All token".to_owned()].into());
        assert_eq!(reread(&table), [].into());
    }

    #[tokio::test]
    async fn the_secret_of_a_cluster_workspace_is_watched_in_its_one_namespace() {
        let table = table(&["a"]);
        let shared = Key {
            kind: WorkspaceKind::ClusterWorkspace,
            ..workspace("")
        };
        let token = secret("operators", "token");
        table.name(&shared, [token.clone()].into());
        table.note(&shared, &token, version("1"));
        let two = ["All token", "Namespace(\"operators\") token"];
        assert_eq!(settled(&table, true), two.map(str::to_owned).into());
    }

    #[tokio::test]
    async fn a_secret_that_can_not_be_read_is_left_to_the_checks() {
        let table = table(&["a"]);
        let token = secret("a", "token");
        table.note(&workspace("a"), &token, Read::Unread);
        assert_eq!(
            (settled(&table, true), reread(&table)),
            ([].into(), [].into())
        );
        table.note(&workspace("a"), &token, Read::Version(None));
        assert_eq!(reread(&table), [token].into());
    }
}
