//! Which Runs of a Workspace may be submitted while `maxActiveRuns` or `maxActiveRunsPerNamespace` limits them.
//!
//! A Run has a slot from the decision to submit it until it has ended, or until it is proved that no run was made.
//! Nothing is counted that the objects don't show: each Run's claim follows from its newest version, and is taken in by
//! every decision. Slots are given by priority; of one priority, to the namespace that has the fewest; then by age.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::api::{WorkspaceKey, workspace::RunLimits};

/// Namespace and uid of a Run.
pub type RunRef = (Arc<str>, Arc<str>);

/// Order of the Runs of a namespace; the uid makes it total.
type Rank = (Reverse<i32>, Timestamp, Arc<str>);

/// Order of the namespaces whose first Run may be next, and that Run.
type Next = (Reverse<i32>, usize, Timestamp, Arc<str>, Arc<str>);

/// What a Run claims of the slots of its Workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    Nothing,
    /// It could be submitted, as far as its own state goes.
    Wants {
        priority: i32,
        created: Timestamp,
    },
    /// It was submitted, or may have been, and has not ended.
    Holds,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Standing {
    Waits(Rank),
    /// It may be submitted, and its object doesn't show an intent yet.
    Granted(Rank),
    Holds,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Member {
    workspace: WorkspaceKey,
    namespace: Arc<str>,
    standing: Standing,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queues {
    runs: BTreeMap<Arc<str>, Member>,
    workspaces: BTreeMap<WorkspaceKey, Queue>,
    /// Every Run that existed before this process began to decide is known.
    opened: bool,
    /// Those that were not decided yet: each may have a slot.
    undecided: BTreeSet<Arc<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Queue {
    /// `None`: the Workspace is not Ready, and no slot is given.
    limits: Option<RunLimits>,
    taken: usize,
    namespaces: BTreeMap<Arc<str>, Share>,
    next: BTreeSet<Next>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Share {
    taken: usize,
    waiting: BTreeSet<Rank>,
}

/// The Runs of a Workspace that have a slot, and those that wait for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub limits: Option<RunLimits>,
    pub active: usize,
    pub queued: usize,
}

impl Queues {
    /// A Run that existed before this process began to decide. No slot is given until each of them was decided.
    pub fn expect(&mut self, uid: &str) -> Vec<RunRef> {
        self.undecided.insert(Arc::from(uid));
        Vec::new()
    }

    /// Every Run that is expected is known.
    pub fn open(&mut self) -> Vec<RunRef> {
        self.opened = true;
        self.grant_all()
    }

    /// Whether a Run has a slot of this Workspace.
    pub fn has_slot(&self, uid: &str, workspace: &WorkspaceKey) -> bool {
        let member = self.runs.get(uid);
        member.is_some_and(|member| member.has_slot() && member.workspace == *workspace)
    }

    /// Takes in a Run's claim. Returns the Runs that have got a slot by it, perhaps this one.
    pub fn claim(
        &mut self,
        (namespace, uid): (&str, &str),
        workspace: &WorkspaceKey,
        claim: Claim,
    ) -> Vec<RunRef> {
        let old = self.runs.get(uid);
        let old = old.filter(|member| member.workspace == *workspace);
        let had = old.is_some_and(Member::has_slot);
        let standing = match claim {
            Claim::Nothing => return self.leave(uid),
            Claim::Holds => Standing::Holds,
            Claim::Wants { priority, created } => {
                let rank = (Reverse(priority), created, Arc::from(uid));
                if had {
                    Standing::Granted(rank)
                } else {
                    Standing::Waits(rank)
                }
            }
        };
        let changed = old.is_none_or(|member| member.standing != standing);
        let last = self.decided(uid);
        if changed {
            let member = Member {
                workspace: workspace.clone(),
                namespace: Arc::from(namespace),
                standing,
            };
            return self.put(uid, Some(member), last);
        }
        if last { self.grant_all() } else { Vec::new() }
    }

    /// Takes in that a Run can't be decided now: it keeps a slot only if it was or may have been submitted.
    pub fn pass(&mut self, uid: &str) -> Vec<RunRef> {
        let member = self.runs.get(uid);
        if member.is_none_or(|member| member.standing != Standing::Holds) {
            return self.leave(uid);
        }
        if self.decided(uid) {
            self.grant_all()
        } else {
            Vec::new()
        }
    }

    /// Takes in that a Run claims nothing any more, or is gone.
    pub fn leave(&mut self, uid: &str) -> Vec<RunRef> {
        let last = self.decided(uid);
        self.put(uid, None, last)
    }

    /// Sets the limits of a Workspace; `None` while it is not Ready. A changed limit takes back what was given by the one
    /// before, and was not used yet.
    pub fn set(&mut self, workspace: &WorkspaceKey, limits: Option<RunLimits>) -> Vec<RunRef> {
        let queue = self.workspaces.entry(workspace.clone()).or_default();
        if queue.limits != limits {
            for member in self.runs.values_mut() {
                if let Standing::Granted(rank) = &member.standing
                    && member.workspace == *workspace
                {
                    let waits = Standing::Waits(rank.clone());
                    queue.count(member, false);
                    member.standing = waits;
                    queue.count(member, true);
                }
            }
            queue.limits = limits;
            let shares = queue.namespaces.iter();
            let next = shares.filter_map(|(namespace, share)| queue.next_of(namespace, share));
            queue.next = next.collect();
        }
        if queue.is_idle() {
            self.workspaces.remove(workspace);
        }
        self.grant(workspace)
    }

    pub fn usage(&self) -> impl Iterator<Item = (&WorkspaceKey, Usage)> {
        self.workspaces.iter().map(|(workspace, queue)| {
            let waiting = queue.namespaces.values().map(|share| share.waiting.len());
            let usage = Usage {
                limits: queue.limits,
                active: queue.taken,
                queued: waiting.sum(),
            };
            (workspace, usage)
        })
    }

    /// Whether it was the last one that had to be decided.
    fn decided(&mut self, uid: &str) -> bool {
        self.undecided.remove(uid) && self.undecided.is_empty()
    }

    fn put(&mut self, uid: &str, new: Option<Member>, all: bool) -> Vec<RunRef> {
        let old = self.runs.remove(uid);
        if let Some(old) = &old {
            self.count(old, false);
        }
        let workspaces = [&old, &new].map(|member| member.as_ref().map(|m| m.workspace.clone()));
        if let Some(new) = new {
            self.count(&new, true);
            self.runs.insert(Arc::from(uid), new);
        }
        if all {
            return self.grant_all();
        }
        let [left, joined] = workspaces;
        let left = left.filter(|left| joined.as_ref() != Some(left));
        let workspaces = left.into_iter().chain(joined);
        workspaces.flat_map(|key| self.grant(&key)).collect()
    }

    fn count(&mut self, member: &Member, joins: bool) {
        let queue = self.workspaces.entry(member.workspace.clone()).or_default();
        queue.count(member, joins);
        if queue.is_idle() {
            self.workspaces.remove(&member.workspace);
        }
    }

    fn grant_all(&mut self) -> Vec<RunRef> {
        let all: Vec<_> = self.workspaces.keys().cloned().collect();
        all.iter().flat_map(|key| self.grant(key)).collect()
    }

    fn grant(&mut self, workspace: &WorkspaceKey) -> Vec<RunRef> {
        let mut granted = Vec::new();
        let queue = self.workspaces.get(workspace);
        let unlimited = queue.is_some_and(|queue| queue.limits == Some(RunLimits::default()));
        let open = unlimited || self.opened && self.undecided.is_empty();
        while open
            && let Some((namespace, uid)) = self.workspaces.get(workspace).and_then(Queue::first)
            && let Some(old) = self.runs.remove(&uid)
        {
            self.count(&old, false);
            let Standing::Waits(rank) = old.standing else {
                break;
            };
            let member = Member {
                standing: Standing::Granted(rank),
                ..old
            };
            self.count(&member, true);
            self.runs.insert(Arc::clone(&uid), member);
            granted.push((namespace, uid));
        }
        granted
    }
}

impl Member {
    fn has_slot(&self) -> bool {
        !matches!(self.standing, Standing::Waits(_))
    }
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.limits.is_none() && self.namespaces.is_empty()
    }

    /// The Run that gets the next slot, if one is free.
    fn first(&self) -> Option<RunRef> {
        let full = self.limits?.all.is_some_and(|max| self.taken >= max);
        let (.., uid, namespace) = self.next.first().filter(|_| !full)?;
        Some((Arc::clone(namespace), Arc::clone(uid)))
    }

    fn next_of(&self, namespace: &Arc<str>, share: &Share) -> Option<Next> {
        let max = self.limits.and_then(|limits| limits.per_namespace);
        let full = max.is_some_and(|max| share.taken >= max);
        let (priority, created, uid) = share.waiting.first().filter(|_| !full)?;
        let (uid, namespace) = (Arc::clone(uid), Arc::clone(namespace));
        Some((*priority, share.taken, *created, uid, namespace))
    }

    fn count(&mut self, member: &Member, joins: bool) {
        let namespace = &member.namespace;
        let mut share = self.namespaces.remove(namespace).unwrap_or_default();
        if let Some(next) = self.next_of(namespace, &share) {
            self.next.remove(&next);
        }
        match &member.standing {
            Standing::Waits(rank) if joins => {
                share.waiting.insert(rank.clone());
            }
            Standing::Waits(rank) => {
                share.waiting.remove(rank);
            }
            Standing::Granted(_) | Standing::Holds if joins => {
                share.taken += 1;
                self.taken += 1;
            }
            Standing::Granted(_) | Standing::Holds => {
                share.taken = share.taken.saturating_sub(1);
                self.taken = self.taken.saturating_sub(1);
            }
        }
        self.next.extend(self.next_of(namespace, &share));
        if share != Share::default() {
            self.namespaces.insert(Arc::clone(namespace), share);
        }
    }
}

#[cfg(test)]
mod tests;
