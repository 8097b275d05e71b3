//! The table of Runs and Workspaces, kept by watching them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use run_operator::api::{Run, Workspace};
use tokio::sync::{Mutex, MutexGuard, watch};
use tokio::task::JoinHandle;

use super::stage::NAMESPACE;
use super::terminal;
use crate::common::{Error, Outcome};

/// Time limit of waiting for a condition: seconds as a rule, more on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// A line of the table: an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// The idempotency key of its run.
    key: String,
    pub(crate) phase: String,
    pub(crate) state: String,
    pub(crate) synced: String,
    pub(crate) ready: String,
    reason: String,
}

/// The state seen up to now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The objects that are there, by `run/NAME` or `workspace/NAME`.
    pub(crate) rows: BTreeMap<String, Row>,
    /// Every Run that was ever seen, deleted ones too: the key of its run by its name.
    pub(crate) runs: BTreeMap<String, String>,
}

impl Seen {
    /// The row of an object; an empty one for what is not there.
    pub(crate) fn row(&self, object: &str) -> Row {
        self.rows.get(object).cloned().unwrap_or_default()
    }

    /// Notes a change, and prints it if the table shows it.
    fn take(&mut self, (object, row): Change) {
        let Some(row) = row else {
            if self.rows.remove(&object).is_some() {
                terminal::row(&terminal::elapsed(), &object, ["(gone)", "", "", "", ""]);
            }
            return;
        };
        if let Some(name) = object.strip_prefix("run/") {
            self.runs.insert(name.to_owned(), row.key.clone());
        }
        if self.rows.get(&object) != Some(&row) {
            let cells = [&row.phase, &row.state, &row.synced, &row.ready, &row.reason];
            terminal::row(&terminal::elapsed(), &object, cells.map(String::as_str));
            self.rows.insert(object, row);
        }
    }
}

/// An object of which a watch reports a change, and its row, unless it is gone.
type Change = (String, Option<Row>);

/// The watch, and the table that it prints: a line for each change of what a row shows.
pub(crate) struct Board {
    seen: watch::Receiver<Seen>,
    printing: Arc<Mutex<()>>,
    task: JoinHandle<()>,
}

impl Board {
    /// Starts to watch.
    pub(crate) fn start(client: &Client) -> Self {
        let runs = ApiResource::erase::<Run>(&());
        let runs = follow(client, &runs, "run/");
        let workspaces = ApiResource::erase::<Workspace>(&());
        let workspaces = follow(client, &workspaces, "workspace/");
        let (sender, seen) = watch::channel(Seen::default());
        let printing = Arc::new(Mutex::new(()));
        let may_print = Arc::clone(&printing);
        let task = tokio::spawn(async move {
            let mut changes = stream::select(runs, workspaces).boxed();
            while let Some(change) = changes.next().await {
                let _allowed = may_print.lock().await;
                // Printed first: output of a task that waits for a condition comes after the line that shows it.
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
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&Seen) -> bool) -> Outcome<()> {
        let mut seen = self.seen.clone();
        match tokio::time::timeout(PATIENCE, seen.wait_for(wanted)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err("the watch of the objects has ended".into()),
            Err(_) => Err(Error::Wait {
                what: what.to_owned(),
                after: PATIENCE,
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

/// The changes of one kind.
fn follow(
    client: &Client,
    kind: &ApiResource,
    prefix: &'static str,
) -> impl Stream<Item = Change> + use<> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, kind);
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let name = move |object: &DynamicObject| format!("{prefix}{}", object.name_any());
    events.filter_map(move |event| {
        let change = match event {
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                Some((name(&object), Some(row(&object))))
            }
            Ok(watcher::Event::Delete(object)) => Some((name(&object), None)),
            Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => None,
        };
        std::future::ready(change)
    })
}

fn row(object: &DynamicObject) -> Row {
    let status = &object.data["status"];
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let condition = |kind: &str, field: &str| {
        let all = status["conditions"].as_array();
        let found = all.into_iter().flatten().find(|one| one["type"] == kind);
        found.map(|one| text(&one[field])).unwrap_or_default()
    };
    let own = object.data["spec"]["idempotencyKey"].as_str();
    let own = own.map(|key| format!("{NAMESPACE}/{key}"));
    Row {
        key: own.or(object.uid()).unwrap_or_default(),
        phase: text(&status["phase"]),
        state: text(&status["state"]),
        synced: condition("Synced", "status"),
        ready: condition("Ready", "status"),
        reason: condition("Ready", "reason"),
    }
}
