//! The table of Runs and Workspaces, kept by watching them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use run_operator::api::{ConditionType, Run, Workspace, conditions};
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, MutexGuard, watch};
use tokio::task::JoinHandle;

use crate::demo::failure::Failure;
use crate::demo::terminal::{self, Row};

/// Time limit of waiting for a condition: seconds as a rule, more on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// The state seen up to now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The objects that are there, by `kind/name`.
    pub(crate) rows: BTreeMap<String, Row>,
    /// Every Run that was ever seen, deleted ones too: its uid by its name.
    pub(crate) runs: BTreeMap<String, String>,
}

impl Seen {
    /// The row of an object; an empty one for what is not there.
    pub(crate) fn row(&self, object: &str) -> Row {
        self.rows.get(object).cloned().unwrap_or_default()
    }
}

/// The watch, and the table that it prints: a line for each change of what a row shows.
pub(crate) struct Board {
    seen: watch::Receiver<Seen>,
    printing: Arc<Mutex<()>>,
    task: JoinHandle<()>,
}

impl Board {
    /// Starts to watch a namespace.
    pub(crate) fn start(client: &Client, namespace: &str) -> Self {
        let runs = follow::<Run>(client, namespace);
        let workspaces = follow::<Workspace>(client, namespace);
        let (sender, seen) = watch::channel(Seen::default());
        let printing = Arc::new(Mutex::new(()));
        let may_print = Arc::clone(&printing);
        let task = tokio::spawn(async move {
            let mut changes = stream::select(runs, workspaces).boxed();
            while let Some(change) = changes.next().await {
                let _allowed = may_print.lock().await;
                // Printed first: output of a task that waits for a condition comes after the line that shows
                // it.
                sender.send_modify(|seen| seen.take(change));
            }
        });
        Self {
            seen,
            printing,
            task,
        }
    }

    /// The state seen up to now.
    pub(crate) fn now(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Holds the table back while something else is printed in one piece.
    pub(crate) async fn hold(&self) -> MutexGuard<'_, ()> {
        self.printing.lock().await
    }

    /// Waits until `wanted` is true of the objects.
    pub(crate) async fn until(
        &self,
        what: &str,
        wanted: impl Fn(&Seen) -> bool,
    ) -> Result<(), Failure> {
        let mut seen = self.seen.clone();
        match tokio::time::timeout(PATIENCE, seen.wait_for(wanted)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(Failure::Watch),
            Err(_) => Err(Failure::Wait {
                what: what.to_owned(),
                seconds: PATIENCE.as_secs(),
                seen: format!("{:#?}", self.now().rows),
            }),
        }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A change reported by a watch.
enum Change {
    There(Row),
    Gone(String),
    /// A new list: no other object of this kind exists.
    Listed(&'static str, BTreeSet<String>),
}

impl Seen {
    fn take(&mut self, change: Change) {
        match change {
            Change::There(row) => {
                if let Some(name) = row.object.strip_prefix(Run::PREFIX) {
                    self.runs.insert(name.to_owned(), row.uid.clone());
                }
                if self.rows.get(&row.object) != Some(&row) {
                    terminal::changed(&row);
                    self.rows.insert(row.object.clone(), row);
                }
            }
            Change::Gone(object) => self.remove(&object),
            Change::Listed(prefix, there) => {
                let gone =
                    |object: &&String| object.starts_with(prefix) && !there.contains(*object);
                for object in self.rows.keys().filter(gone).cloned().collect::<Vec<_>>() {
                    self.remove(&object);
                }
            }
        }
    }

    fn remove(&mut self, object: &str) {
        if self.rows.remove(object).is_some() {
            terminal::deleted(object);
        }
    }
}

/// A kind that the table shows.
trait Shown:
    ResourceExt + Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
{
    /// Prefix of its rows.
    const PREFIX: &'static str;

    fn phase_and_state(&self) -> (String, String);
    fn conditions(&self) -> &[Condition];

    fn object(&self) -> String {
        format!("{}{}", Self::PREFIX, self.name_any())
    }

    fn row(&self) -> Row {
        let (phase, state) = self.phase_and_state();
        let ready = conditions::find(self.conditions(), ConditionType::Ready);
        let synced = conditions::find(self.conditions(), ConditionType::Synced);
        Row {
            object: self.object(),
            uid: self.uid().unwrap_or_default(),
            phase,
            state,
            synced: synced
                .map(|synced| synced.status.clone())
                .unwrap_or_default(),
            ready: ready.map(|ready| ready.status.clone()).unwrap_or_default(),
            reason: ready.map(|ready| ready.reason.clone()).unwrap_or_default(),
        }
    }
}

impl Shown for Run {
    const PREFIX: &'static str = "run/";

    fn phase_and_state(&self) -> (String, String) {
        let status = self.status.as_ref();
        let phase = status.and_then(|status| status.phase);
        let state = status.and_then(|status| status.state.clone());
        (
            phase.map(|phase| format!("{phase:?}")).unwrap_or_default(),
            state.unwrap_or_default(),
        )
    }

    fn conditions(&self) -> &[Condition] {
        self.status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default()
    }
}

impl Shown for Workspace {
    const PREFIX: &'static str = "workspace/";

    fn phase_and_state(&self) -> (String, String) {
        (String::new(), String::new())
    }

    fn conditions(&self) -> &[Condition] {
        self.status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default()
    }
}

/// The changes of one kind. A watch that breaks is restarted and begins with a list.
fn follow<K>(client: &Client, namespace: &str) -> impl Stream<Item = Change> + use<K>
where
    K: Shown + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let mut listed = BTreeSet::new();
    events.filter_map(move |event| {
        let change = match event {
            Ok(watcher::Event::Apply(object)) => Some(Change::There(object.row())),
            Ok(watcher::Event::InitApply(object)) => {
                listed.insert(object.object());
                Some(Change::There(object.row()))
            }
            Ok(watcher::Event::Delete(object)) => Some(Change::Gone(object.object())),
            Ok(watcher::Event::InitDone) => {
                Some(Change::Listed(K::PREFIX, std::mem::take(&mut listed)))
            }
            Ok(watcher::Event::Init) | Err(_) => None,
        };
        std::future::ready(change)
    })
}
