//! A Workspace outlives the Runs that need it: its finalizer goes when none of them is left, and no Run
//! can begin in between.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use kube::{Api, Resource, ResourceExt};

use crate::api::Run;
use crate::decide::{need::needs_workspace, workspace::LISTED_RUNS};
use crate::service::BaseUrl;

use super::{
    apiserver,
    context::{Context, Guarded, lock},
    kinds::Kind,
    queue::reference,
    reaper,
    registry::Key,
    scope::Scope,
    watch::chain,
    writes,
};

/// A list that takes longer is given up.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Where first intents are written, and where none may be written any more.
#[derive(Default)]
pub struct Doors(Mutex<HashMap<Key, Door>>);

#[derive(Default)]
struct Door {
    closed: bool,
    inside: usize,
}

/// The right to write a first intent; given back when dropped.
pub struct Entered<'a> {
    doors: &'a Doors,
    key: Key,
}

impl Doors {
    /// Begins a first intent; `None` where the Workspace is about to go.
    pub fn enter(&self, key: &Key) -> Option<Entered<'_>> {
        let mut doors = lock(&self.0);
        let door = doors.entry(key.clone()).or_default();
        if door.closed {
            return None;
        }
        door.inside += 1;
        Some(Entered {
            doors: self,
            key: key.clone(),
        })
    }

    /// Lets no Run in any more. Returns whether nobody is inside.
    fn close(&self, key: &Key) -> bool {
        let mut doors = lock(&self.0);
        let door = doors.entry(key.clone()).or_default();
        door.closed = true;
        door.inside == 0
    }

    /// Lets Runs in: the Workspace is not being deleted, or there is none by this name.
    pub fn open(&self, key: &Key) {
        let mut doors = lock(&self.0);
        if let Some(door) = doors.get_mut(key) {
            door.closed = false;
            if door.inside == 0 {
                doors.remove(key);
            }
        }
    }

    /// Whether the Workspace is about to go.
    pub fn closed(&self, key: &Key) -> bool {
        lock(&self.0).get(key).is_some_and(|door| door.closed)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut doors = lock(&self.doors.0);
        if let Some(door) = doors.get_mut(&self.key) {
            door.inside = door.inside.saturating_sub(1);
            if door.inside == 0 && !door.closed {
                doors.remove(&self.key);
            }
        }
    }
}

/// What became of a Workspace that is being deleted.
pub(super) enum Departure {
    /// Its finalizer is off.
    Released,
    /// Runs need it, or may begin to: look again when one has ended.
    Waits,
    /// It changed meanwhile.
    Overtaken,
    /// The Runs could not be listed, or the finalizer not be taken off.
    Failed,
}

/// One more than a message names, so that it can say that there are others.
const NAMED: usize = LISTED_RUNS + 1;

/// The first of the Runs that need this Workspace, as far as the index knows, in the order of their names,
/// and those that vanished and whose runs are still to be cancelled; of a `ClusterWorkspace` with their
/// namespaces. Empty where there are none.
pub(super) fn needed_by<K: Kind>(ctx: &Context, workspace: &K, key: &Key) -> Vec<String> {
    let base_url = base_url(ctx, workspace);
    let base_url = base_url.as_deref();
    let stored = |namespace: &str, name: &str| {
        let object = reference(namespace, name);
        ctx.run_stores().find_map(|store| store.get(&object))
    };
    let needing = ctx.run_index.needing(key, usize::MAX).into_iter();
    let mut names: Vec<String> = needing
        .filter(|(namespace, name)| {
            // The index doesn't know what a Workspace's base URL is.
            stored(namespace, name).is_none_or(|run| needs(&run, key, base_url))
        })
        .map(|(namespace, name)| key.naming(&namespace, &name))
        .take(NAMED)
        .chain(reaper::owing(ctx, key, base_url))
        .collect();
    names.sort();
    names.truncate(NAMED);
    names
}

/// Lets a Workspace go that is being deleted, if no Run needs it: first by the stores, then by a live
/// list, since a store may be behind.
pub(super) async fn depart<K: Kind>(ctx: &Context, workspace: &K, key: &Key) -> Departure {
    let nobody_inside = ctx.doors.close(key);
    if !nobody_inside || !needed_by(ctx, workspace, key).is_empty() {
        return Departure::Waits;
    }
    match needed_live(ctx, key, base_url(ctx, workspace).as_deref()).await {
        Ok(false) => {}
        Ok(true) => return Departure::Waits,
        Err(error) => {
            tracing::warn!(
                k8s.namespace.name = %key.namespace, workspace.name = %key.name, error = %chain(&error),
                "failed to list the Runs of a Workspace that is being deleted; trying again"
            );
            return Departure::Failed;
        }
    }
    let api = K::api(ctx.client.clone(), &key.namespace);
    match writes::write_finalizer(&api, workspace, false).await {
        Ok(_) | Err(writes::WriteError::Gone) => Departure::Released,
        // Its status was written a moment ago, most likely.
        Err(writes::WriteError::Conflict) => Departure::Overtaken,
        Err(error) => {
            tracing::warn!(
                k8s.namespace.name = %key.namespace, workspace.name = %key.name, error = %chain(&error),
                "failed to let a Workspace go; trying again"
            );
            Departure::Failed
        }
    }
}

/// A Run has ended or gone: the Workspace that it used may go too.
pub(super) fn run_ended(ctx: &Context, run: &Run) {
    let namespace = run.namespace().unwrap_or_default();
    let key = Key::of(&run.spec.workspace_ref(), &namespace);
    if ctx.doors.closed(&key) {
        ctx.wake_workspace(&key);
    }
}

/// Why the Runs could not be listed.
#[derive(Debug, thiserror::Error)]
enum ListError {
    #[error("failed to list Runs")]
    Kube(#[source] kube::Error),
    #[error("failed to list Runs within {} s", TIMEOUT.as_secs())]
    Timeout,
}

/// The Workspace's base URL, allowed or not, as a Run is pinned to it; none where neither the Workspace nor the
/// operator names one.
fn base_url<K: Kind>(ctx: &Context, workspace: &K) -> Option<String> {
    let spec = workspace.common();
    let url = spec
        .base_url
        .as_deref()
        .or(ctx.config.base_url.as_deref())?;
    Some(BaseUrl::normalised(url).unwrap_or_else(|| url.to_owned()))
}

async fn needed_live(ctx: &Context, key: &Key, base_url: Option<&str>) -> Result<bool, ListError> {
    let scopes = if key.namespace.is_empty() {
        Scope::of(&ctx.config.namespaces)
    } else {
        vec![Scope::Namespace(key.namespace.clone())]
    };
    for scope in scopes {
        let api: Api<Run> = scope.api(ctx.client.clone());
        let mut needed = false;
        let list = apiserver::list(&api, None, |run| {
            needed = needs(&run, key, base_url);
            needed
        });
        let listed = tokio::time::timeout(TIMEOUT, list).await;
        listed
            .map_err(|_| ListError::Timeout)?
            .map_err(ListError::Kube)?;
        if needed {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A Run that can't be read is needy as long as it is held.
fn needs(run: &Guarded<Run>, key: &Key, base_url: Option<&str>) -> bool {
    let namespace = run.meta().namespace.as_deref().unwrap_or_default();
    match &run.0 {
        Ok(run) => {
            Key::of(&run.spec.workspace_ref(), namespace) == *key && needs_workspace(run, base_url)
        }
        Err(_) => writes::held(run) && (key.namespace.is_empty() || key.namespace == namespace),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::registry::key;

    #[test]
    fn nobody_enters_a_closed_door_and_it_is_known_who_is_inside() {
        let doors = Doors::default();
        let first = doors.enter(&key()).unwrap();
        assert!(!doors.close(&key()), "one is inside");
        assert!(doors.enter(&key()).is_none());
        drop(first);
        assert!(doors.close(&key()), "nobody is inside any more");
        doors.open(&key());
        assert!(doors.enter(&key()).is_some());
    }

    #[test]
    fn nothing_is_kept_of_a_door_that_nobody_closes() {
        let doors = Doors::default();
        drop(doors.enter(&key()));
        assert!(lock(&doors.0).is_empty());
    }
}
