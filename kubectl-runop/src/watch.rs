//! One Run, by its uid, from now until it is gone.

use futures::{Stream, StreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};

use super::cluster::Cluster;
use super::exit::RunsError;
use super::object::Seen;

/// What became of a Run.
#[derive(Debug)]
pub(super) enum Change {
    /// It was read, or has changed.
    Seen(Box<Seen>),
    /// It was deleted; with its last version, if the API server sent that. Another one may have its name.
    Gone(Option<Box<Seen>>),
    /// The API server gives no answer; the watch is opened again automatically.
    Silent(String),
}

/// The changes of the Run with this name and uid, from its present version on. After an error, which waiting does not
/// mend, nothing more is to be read from it.
pub(super) fn changes(
    cluster: &Cluster,
    name: &str,
    uid: &str,
) -> impl Stream<Item = Result<Change, RunsError>> + use<> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let events = watcher(cluster.runs(), config).default_backoff();
    let mut watched = Watched {
        uid: uid.to_owned(),
        listed: false,
    };
    events
        .map(move |event| watched.change(event))
        .filter_map(std::future::ready)
}

struct Watched {
    uid: String,
    /// Whether the list that is being read has shown it.
    listed: bool,
}

impl Watched {
    fn change(&mut self, event: watcher::Result<Event<Seen>>) -> Option<Result<Change, RunsError>> {
        match event {
            Ok(Event::Init) => {
                self.listed = false;
                None
            }
            Ok(Event::InitApply(run) | Event::Apply(run)) => {
                self.listed = true;
                Some(Ok(if run.uid() == self.uid {
                    Change::Seen(Box::new(run))
                } else {
                    Change::Gone(None)
                }))
            }
            Ok(Event::InitDone) => (!self.listed).then_some(Ok(Change::Gone(None))),
            Ok(Event::Delete(run)) => {
                let last = (run.uid() == self.uid).then(|| Box::new(run));
                Some(Ok(Change::Gone(last)))
            }
            Err(error) => passing(error).transpose(),
        }
    }
}

/// An error that the watch gets over: the text to show, or none for what is no more than a fresh list. Refusals of the
/// list or of the watch are errors: they need other permissions.
fn passing(error: watcher::Error) -> Result<Option<Change>, RunsError> {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            let error = RunsError::from(error);
            match error.code() {
                Some(400..=428 | 430..=499) => Err(error),
                _ => Ok(Some(Change::Silent(error.to_string()))),
            }
        }
        watcher::Error::WatchError(_) => Ok(None),
        error => Ok(Some(Change::Silent(error.to_string()))),
    }
}
