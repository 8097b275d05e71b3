//! Index of the Workspaces of one kind: counts by their `Ready` condition.

use std::collections::HashMap;
use std::sync::Mutex;

use kube::Resource;

use crate::api::{ConditionType, Reason, any_workspace::AnyWorkspace, conditions::find};
use crate::controller::{
    apiserver::{Maybe, scope::Scope},
    metrics::catalogue::{NOT_READY, READY},
};
use crate::util::lock;

use super::staged::{Staged, place_of};

/// Namespace and name; a cluster-scoped object has no namespace.
type Name = (String, String);

/// The Workspaces of one kind in the stores.
#[derive(Default)]
pub struct WorkspaceIndex {
    table: Mutex<Table>,
    staged: Staged<(Name, Shown)>,
}

/// Counts of the Workspaces of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceCounts {
    /// By the status of their Ready condition, in the order of [`READY`].
    pub ready: [usize; READY.len()],
    /// Workspaces that are not Ready by the reason, in the order of [`NOT_READY`].
    pub not_ready: [usize; NOT_READY.len()],
}

#[derive(Default)]
struct Table {
    shown: HashMap<Name, Shown>,
    counts: WorkspaceCounts,
}

/// The Ready condition of one Workspace, as positions in [`READY`] and [`NOT_READY`].
#[derive(Clone, Copy)]
struct Shown {
    ready: u8,
    reason: Option<u8>,
}

impl WorkspaceIndex {
    /// Begins a list of this scope.
    pub fn begin(&self, scope: &Scope) {
        self.staged.begin(scope);
    }

    /// Adds a Workspace of a list.
    pub fn list<K: AnyWorkspace + Clone>(&self, scope: &Scope, object: &Maybe<K>) {
        self.staged.add(scope, (name(object), Shown::of(object)));
    }

    /// Ends a list, which replaces the Workspaces of its scope.
    pub fn listed(&self, scope: &Scope) {
        let listed = self.staged.take(scope);
        let mut table = lock(&self.table);
        match scope {
            Scope::All => *table = Table::default(),
            Scope::Namespace(namespace) => {
                let here = table.shown.keys().filter(|name| name.0 == *namespace);
                let here: Vec<Name> = here.cloned().collect();
                for name in &here {
                    table.remove(name);
                }
            }
        }
        for (name, shown) in listed {
            table.put(name, shown);
        }
    }

    /// Handles a Workspace that was created or changed.
    pub fn apply<K: AnyWorkspace + Clone>(&self, object: &Maybe<K>) {
        lock(&self.table).put(name(object), Shown::of(object));
    }

    /// Handles a Workspace that was deleted.
    pub fn delete<K: AnyWorkspace + Clone>(&self, object: &Maybe<K>) {
        lock(&self.table).remove(&name(object));
    }

    /// The current counts.
    pub fn counts(&self) -> WorkspaceCounts {
        lock(&self.table).counts.clone()
    }
}

impl Table {
    fn put(&mut self, name: Name, shown: Shown) {
        self.remove(&name);
        self.counts.change(shown, |count| *count += 1);
        self.shown.insert(name, shown);
    }

    fn remove(&mut self, name: &Name) {
        if let Some(shown) = self.shown.remove(name) {
            self.counts
                .change(shown, |count| *count = count.saturating_sub(1));
        }
    }
}

impl WorkspaceCounts {
    fn change(&mut self, shown: Shown, change: impl Fn(&mut usize)) {
        if let Some(count) = self.ready.get_mut(usize::from(shown.ready)) {
            change(count);
        }
        let reason = shown.reason.map(usize::from);
        if let Some(count) = reason.and_then(|place| self.not_ready.get_mut(place)) {
            change(count);
        }
    }
}

impl Shown {
    /// A Workspace that can't be decoded is not Ready, whatever its last status.
    fn of<K: AnyWorkspace>(object: &Maybe<K>) -> Self {
        let (shown, reason) = match object {
            Maybe::Good(workspace) => {
                let status = workspace.stored();
                let ready = status.and_then(|s| find(&s.conditions, ConditionType::Ready));
                ready.map_or(("", ""), |ready| (&*ready.status, &*ready.reason))
            }
            Maybe::Bad(_) => ("False", Reason::WorkspaceInvalid.as_str()),
        };
        Self {
            ready: place_of(READY, shown),
            reason: (shown != "True").then(|| place_of(NOT_READY, reason)),
        }
    }
}

fn name(object: &impl Resource) -> Name {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (text(&object.meta().namespace), text(&object.meta().name))
}
