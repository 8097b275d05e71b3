//! The Workspaces as their Runs see them: verified sessions, kept in memory. Authority lies here and not
//! in a Workspace's status, since only this process knows what was answered for its very token.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::api::{
    run::{WorkspaceKind, WorkspaceRef},
    status::ResolvedWorkspace,
};
use crate::decide::{
    Session, WorkspaceView,
    answer::{Failure, FailureKind},
    place::elsewhere,
};
use crate::service::{Client, Credentials};

use super::{context::lock, gate::Gate};

/// Names a Workspace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Its kind.
    pub kind: WorkspaceKind,
    /// Its namespace; empty for a cluster-scoped one.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// How a message about this Workspace names an object of `namespace`: in full where several use it.
    pub fn naming(&self, namespace: &str, name: &str) -> String {
        if self.namespace.is_empty() {
            format!("{namespace}/{name}")
        } else {
            name.to_owned()
        }
    }

    /// The Workspace that a Run in `namespace` refers to.
    pub fn of(reference: &WorkspaceRef, namespace: &str) -> Self {
        let namespace = match reference.kind() {
            WorkspaceKind::Workspace => namespace.to_owned(),
            WorkspaceKind::ClusterWorkspace => String::new(),
        };
        Self {
            kind: reference.kind(),
            namespace,
            name: reference.name.clone(),
        }
    }
}

/// A client and the token that it was verified with.
pub struct Live {
    /// The client for the Workspace's base URL.
    pub client: Client,
    /// What its calls are made with.
    pub credentials: Credentials,
    /// The session's number.
    pub number: u64,
    /// What every call passes.
    pub gate: Arc<Gate>,
}

/// What is known of a Workspace, and what its Runs may use.
#[derive(Clone)]
pub struct Slot {
    /// For policy.
    pub view: WorkspaceView,
    /// For calls; there only while the view is Ready.
    pub live: Option<Arc<Live>>,
    /// The place of the last verified session, as long as nothing says that the Workspace stands for another
    /// or for none: a stream that is open there stays open, though no call can be made.
    pub place: Option<ResolvedWorkspace>,
}

impl Slot {
    /// A Workspace that no call can be made with, and no stream kept.
    pub fn closed(view: WorkspaceView) -> Self {
        Self::paused(view, None)
    }

    /// A Workspace that no call can be made with now; the streams of `place` stay open.
    pub fn paused(view: WorkspaceView, place: Option<ResolvedWorkspace>) -> Self {
        Self {
            view,
            live: None,
            place,
        }
    }

    /// A verified Workspace.
    pub fn ready(session: Session, live: Arc<Live>) -> Self {
        Self {
            place: Some(session.resolved.clone()),
            view: WorkspaceView::Ready(session),
            live: Some(live),
        }
    }

    /// Whether a stream that was opened at `place` may stay open, whatever becomes of the token.
    pub fn keeps(&self, place: &ResolvedWorkspace) -> bool {
        let now = self.place.as_ref();
        now.is_some_and(|now| elsewhere(place, now).is_none())
    }
}

impl Live {
    /// Whether calls of both sessions carry the same token.
    pub fn same_token(&self, other: &Self) -> bool {
        self.credentials.token == other.credentials.token
    }
}

/// Why a Run's call makes one doubt its Workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspicion {
    /// 401: the token is not good any more.
    Unauthorized,
    /// No answer, or one that a proxy made: the service may be down.
    Outage,
}

impl Suspicion {
    /// What a failed call says about the Workspace.
    pub fn of(failure: &Failure) -> Option<Self> {
        match (failure.kind, failure.http_status) {
            (FailureKind::Transport, _) | (FailureKind::Bare, Some(500..=599)) => {
                Some(Self::Outage)
            }
            (_, Some(401)) => Some(Self::Unauthorized),
            _ => None,
        }
    }
}

/// All Workspaces.
#[derive(Default)]
pub struct Registry {
    slots: Mutex<HashMap<Key, watch::Sender<Slot>>>,
    suspected: Mutex<HashSet<Key>>,
    sessions: AtomicU64,
}

impl Registry {
    /// What is known of a Workspace; `Unknown` before the first look.
    pub fn slot(&self, key: &Key) -> Slot {
        let slots = lock(&self.slots);
        slots.get(key).map_or_else(
            || Slot::closed(WorkspaceView::Unknown),
            |sender| sender.borrow().clone(),
        )
    }

    /// Follows a Workspace.
    pub fn subscribe(&self, key: &Key) -> watch::Receiver<Slot> {
        sender(&mut lock(&self.slots), key).subscribe()
    }

    /// A number for a new session, larger than every one before.
    pub fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Sets what is known. Returns whether Runs should look again.
    pub fn set(&self, key: &Key, slot: Slot) -> bool {
        // Under the lock: what is set must not be forgotten at the same moment.
        sender(&mut lock(&self.slots), key).send_if_modified(|current| {
            let same = current.view == slot.view && current.place == slot.place;
            *current = slot;
            !same
        })
    }

    /// A Run's call raised a suspicion about the session `number`. Returns whether it is news: then the
    /// Workspace must be checked. A rejected token is used for no call until a check has gone well; open streams
    /// stay.
    pub fn suspect(&self, key: &Key, number: u64, suspicion: Suspicion) -> bool {
        let Some(sender) = lock(&self.slots).get(key).cloned() else {
            return false;
        };
        let meant = |slot: &Slot| slot.live.as_ref().is_some_and(|l| l.number == number);
        let current = match suspicion {
            // In one step: a check that has just ended well must not be undone.
            Suspicion::Unauthorized => sender.send_if_modified(|slot| {
                let meant = meant(slot);
                if meant {
                    *slot = Slot::paused(WorkspaceView::Unknown, slot.place.take());
                }
                meant
            }),
            Suspicion::Outage => meant(&sender.borrow()),
        };
        current && lock(&self.suspected).insert(key.clone())
    }

    /// Whether a call raised a suspicion that no check has cleared yet.
    pub fn suspected(&self, key: &Key) -> bool {
        lock(&self.suspected).contains(key)
    }

    /// A check begins: what is suspected from now on is news again.
    pub fn clear_suspicion(&self, key: &Key) {
        lock(&self.suspected).remove(key);
    }

    /// Every Workspace that was asked for.
    pub fn keys(&self) -> Vec<Key> {
        lock(&self.slots).keys().cloned().collect()
    }

    /// Forgets a Workspace that is gone, unless somebody waits for one of its name.
    pub fn forget(&self, key: &Key) {
        lock(&self.suspected).remove(key);
        let mut slots = lock(&self.slots);
        if slots
            .get(key)
            .is_some_and(|slot| slot.receiver_count() == 0)
        {
            slots.remove(key);
        }
    }
}

fn sender<'a>(
    slots: &'a mut HashMap<Key, watch::Sender<Slot>>,
    key: &Key,
) -> &'a watch::Sender<Slot> {
    slots
        .entry(key.clone())
        .or_insert_with(|| watch::Sender::new(Slot::closed(WorkspaceView::Unknown)))
}

/// The Workspace that this layer's tests speak of.
#[cfg(test)]
pub(super) fn key() -> Key {
    Key {
        kind: WorkspaceKind::Workspace,
        namespace: "team".to_owned(),
        name: "default".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::api::Contract;
    use crate::controller::metrics::Metrics;
    use crate::service::{AllowList, BaseUrl, ClientConfig, Token};

    use super::*;

    /// A verified session with this number.
    fn ready(number: u64) -> Slot {
        // Another test of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = "http://localhost:1/api/v1";
        let allowed = AllowList::parse([url], false).unwrap();
        let contract = Arc::new(Contract::builtin().unwrap());
        let token = Token::parse(b"canary-of-the-registry", &contract).unwrap();
        let config = ClientConfig {
            base_url: BaseUrl::parse(url, &allowed).unwrap(),
            ca_pem: None,
            contract,
            user_agent: "test".to_owned(),
            observer: Arc::new(()),
        };
        let gate = Gate::new(key(), Box::new(|_, _| {}), Arc::new(Metrics::new()));
        let resolved = ResolvedWorkspace {
            kind: WorkspaceKind::Workspace,
            name: "default".to_owned(),
            uid: "w1".to_owned(),
            base_url: url.to_owned(),
            identity: None,
        };
        let session = Session {
            number,
            resolved,
            holds: None,
        };
        let live = Live {
            client: Client::new(config).unwrap(),
            credentials: Credentials {
                token,
                workspace_id: None,
            },
            number,
            gate: Arc::new(gate),
        };
        Slot::ready(session, Arc::new(live))
    }

    #[test]
    fn a_rejected_token_is_used_no_more_and_a_check_is_asked_for_once() {
        let registry = Registry::default();
        registry.set(&key(), ready(2));
        // A call of an earlier session says nothing about the token of this one.
        assert!(!registry.suspect(&key(), 1, Suspicion::Unauthorized));
        assert!(registry.slot(&key()).live.is_some() && !registry.suspected(&key()));
        assert!(registry.suspect(&key(), 2, Suspicion::Unauthorized));
        assert!(registry.slot(&key()).live.is_none() && registry.suspected(&key()));
        assert!(!registry.suspect(&key(), 2, Suspicion::Unauthorized));
    }

    #[test]
    fn a_rejected_token_closes_no_stream_of_its_place() {
        let registry = Registry::default();
        registry.set(&key(), ready(2));
        let place = registry.slot(&key()).place.unwrap();
        registry.suspect(&key(), 2, Suspicion::Unauthorized);
        assert!(registry.slot(&key()).keeps(&place));
        let elsewhere = ResolvedWorkspace {
            base_url: "http://localhost:2/api/v1".to_owned(),
            ..place.clone()
        };
        assert!(!registry.slot(&key()).keeps(&elsewhere));
        registry.set(&key(), Slot::closed(WorkspaceView::Missing));
        assert!(!registry.slot(&key()).keeps(&place));
    }

    #[test]
    fn while_an_outage_is_suspected_the_session_goes_on() {
        let registry = Registry::default();
        registry.set(&key(), ready(2));
        assert!(!registry.suspect(&key(), 1, Suspicion::Outage), "long ago");
        assert!(registry.suspect(&key(), 2, Suspicion::Outage));
        assert!(!registry.suspect(&key(), 2, Suspicion::Outage), "no news");
        assert!(registry.slot(&key()).live.is_some());
        registry.clear_suspicion(&key());
        assert!(registry.suspect(&key(), 2, Suspicion::Outage));
    }

    #[test]
    fn a_workspace_that_is_gone_is_kept_only_for_those_who_wait_for_it() {
        let registry = Registry::default();
        assert_eq!(registry.slot(&key()).view, WorkspaceView::Unknown);
        assert_eq!(registry.keys(), [], "a look keeps nothing");
        let mut waiting = registry.subscribe(&key());
        registry.forget(&key());
        assert!(registry.set(&key(), Slot::closed(WorkspaceView::Missing)));
        assert!(waiting.has_changed().unwrap(), "it was not forgotten");
        waiting.mark_unchanged();
        drop(waiting);
        registry.forget(&key());
        assert_eq!(registry.keys(), []);
    }
}
