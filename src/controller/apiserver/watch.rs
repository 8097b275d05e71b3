//! A list and then an endless watch, by kube's watcher. Added here: pauses that grow after errors; pages where a streamed
//! list is refused, breaks or never ends (kube asks for it again, or waits, for ever); a new list where a watch can't
//! resume (a 410, a line that is no JSON, errors in a row). An object without readable metadata is skipped.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use futures::stream::{self, BoxStream, Stream, StreamExt};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Config, DefaultBackoff, Event, watcher};
use kube::{Api, Resource, core::NamespaceResourceScope};
use tokio::time::{Instant, sleep, timeout_at};

use crate::util::error_chain;

use super::object::{Maybe, Object};

/// Errors in a row after which the list begins again, whatever they are.
const FAILURES: u32 = 5;
/// Time without an error after which the next one counts as the first.
const LASTING: Duration = Duration::from_mins(2);
/// Time without a further object of a streamed list after which it counts as failed: the bookmark that completes it may
/// never come.
const SILENCE: Duration = Duration::from_secs(15);
/// Objects of a page. kube holds a page as a whole, and each object may have 1.5 MiB.
const PAGE: u32 = 100;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    All,
    Namespace(String),
}

impl Scope {
    pub fn of(namespaces: &[String]) -> Vec<Self> {
        if namespaces.is_empty() {
            vec![Self::All]
        } else {
            namespaces.iter().cloned().map(Self::Namespace).collect()
        }
    }

    pub fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(own) => own == namespace,
        }
    }

    pub fn api<K>(&self, client: kube::Client) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        match self {
            Self::All => Api::all(client),
            Self::Namespace(namespace) => Api::namespaced(client, namespace),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error(transparent)]
    Watcher(#[from] watcher::Error),
    #[error("a streamed list ended before it was complete")]
    Incomplete,
    #[error("a streamed list brought neither a further object nor its end within {} s", SILENCE.as_secs())]
    Endless,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    /// As the first events of a watch: neither side holds it in memory.
    Streamed,
    InPages,
}

pub fn watch<K: Object>(
    api: Api<Maybe<K>>,
    config: Config,
) -> impl Stream<Item = Event<Maybe<K>>> + Send {
    stream::unfold(Watch::new(api, config), |mut watch| async move {
        let event = watch.next().await;
        Some((event, watch))
    })
}

struct Watch<K> {
    api: Api<Maybe<K>>,
    config: Config,
    events: BoxStream<'static, watcher::Result<Event<Maybe<K>>>>,
    list: List,
    /// The API server has no streamed lists, ends none, or grants no watch: every list is read in pages.
    unstreamed: bool,
    streamed: Streamed,
    begun: bool,
    complete: bool,
    failures: Failures,
}

impl<K: Object> Watch<K> {
    fn new(api: Api<Maybe<K>>, config: Config) -> Self {
        let list = List::Streamed;
        Self {
            events: events(&api, &config, list),
            api,
            config,
            list,
            unstreamed: false,
            streamed: Streamed::default(),
            begun: false,
            complete: false,
            failures: Failures::default(),
        }
    }

    fn begin(&mut self, list: List) {
        let list = if self.unstreamed { List::InPages } else { list };
        self.events = events(&self.api, &self.config, list);
        (self.list, self.begun, self.complete) = (list, false, false);
        self.streamed = Streamed::default();
    }

    async fn next(&mut self) -> Event<Maybe<K>> {
        loop {
            match self.read(SILENCE).await {
                Ok(Some(event)) => return event,
                Ok(None) => {}
                Err(error) => sleep(self.failed(&error)).await,
            }
        }
    }

    /// The next event; `None` if it has no effect. `silence` is the longest between two objects of a streamed list.
    async fn read(&mut self, silence: Duration) -> Result<Option<Event<Maybe<K>>>, WatchError> {
        let streamed = self.list == List::Streamed && !self.complete;
        let read = if streamed {
            let until = self.streamed.until(silence);
            let read = timeout_at(until, self.events.next()).await;
            read.map_err(|_| WatchError::Endless)?
        } else {
            self.events.next().await
        };
        // kube's watcher has no end.
        let Some(event) = read.transpose()? else {
            return Err(WatchError::Incomplete);
        };
        match &event {
            Event::Init if streamed && self.begun => return Err(WatchError::Incomplete),
            // After pages, the next list is tried as a stream again.
            Event::Init if self.complete && self.list == List::InPages => {
                self.begin(List::Streamed);
                return Ok(None);
            }
            Event::Init => (self.begun, self.complete) = (true, false),
            Event::InitDone => (self.complete, self.streamed) = (true, Streamed::default()),
            Event::InitApply(object) | Event::Apply(object) | Event::Delete(object) => {
                // Not even its metadata can be decoded, and so nothing is known of it.
                if let Maybe::Bad(bad) = object
                    && bad.metadata.name.is_none()
                {
                    tracing::error!(
                        k8s.kind = %K::kind(&()), error = %bad.error,
                        "failed to read an object's metadata; the object is skipped"
                    );
                    return Ok(None);
                }
                if self.complete && self.failures.in_a_row > 0 {
                    self.failures.end();
                }
                if streamed && !self.streamed.advances(object, silence) {
                    return Err(WatchError::Endless);
                }
            }
        }
        Ok(Some(event))
    }

    fn failed(&mut self, error: &WatchError) -> Duration {
        let pause = self.failures.add(Instant::now());
        report(&K::kind(&()), error, self.failures.in_a_row);
        if self.complete {
            if self.failures.in_a_row >= FAILURES || !resumes(error) {
                self.begin(List::Streamed);
            }
            return pause;
        }
        let code = status(error);
        if self.list == List::InPages {
            self.begin(List::Streamed);
            return pause;
        }
        let endless = self.begun && matches!(error, WatchError::Endless);
        self.unstreamed = endless || matches!(code, Some(400 | 403 | 422));
        self.begin(List::InPages);
        // Pages may be there where streamed lists aren't, unless those are refused for the same reason.
        if self.failures.in_a_row == 1 && !matches!(code, Some(401 | 403 | 404)) {
            return Duration::ZERO;
        }
        pause
    }
}

/// How far a streamed list is. A change of an object that it has brought is no progress: the API server is past the list,
/// and on a busy cluster such changes would hide for ever that its end never came.
#[derive(Default)]
struct Streamed {
    /// Since when no further object has come.
    since: Option<Instant>,
    hasher: RandomState,
    /// Hashes of the uids that have come.
    objects: HashSet<u64>,
}

impl Streamed {
    fn until(&mut self, silence: Duration) -> Instant {
        *self.since.get_or_insert_with(Instant::now) + silence
    }

    /// Takes in an object; false if it is none of the list's and the time is over.
    fn advances(&mut self, object: &impl Resource, silence: Duration) -> bool {
        let uid = self.hasher.hash_one(&object.meta().uid);
        if self.objects.insert(uid) {
            self.since = None;
            return true;
        }
        Instant::now() < self.until(silence)
    }
}

fn events<K: Object>(
    api: &Api<Maybe<K>>,
    config: &Config,
    list: List,
) -> BoxStream<'static, watcher::Result<Event<Maybe<K>>>> {
    let config = config.clone();
    let config = match list {
        List::Streamed => config.streaming_lists(),
        List::InPages => config.page_size(PAGE),
    };
    watcher(api.clone(), config).boxed()
}

/// Whether kube's watcher goes on after this error and misses nothing. A line that is no event it passes over.
fn resumes(error: &WatchError) -> bool {
    let line = match error {
        WatchError::Watcher(watcher::Error::WatchFailed(error)) => {
            !matches!(error, kube::Error::ReadEvents(_))
        }
        _ => false,
    };
    status(error) != Some(410) && !line
}

fn status(error: &WatchError) -> Option<u16> {
    match error {
        WatchError::Watcher(error) => http_status(error),
        WatchError::Incomplete | WatchError::Endless => None,
    }
}

pub fn http_status(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

fn report(kind: &str, error: &WatchError, in_a_row: u32) {
    // A list or a watch of a kind that doesn't exist is answered with a bare 404.
    if status(error) != Some(404) {
        tracing::warn!(k8s.kind = kind, failures = in_a_row, error = %error_chain(error), "watch failed; retrying");
    } else if in_a_row == 1 {
        // Logged once per series of failures, not per list: the CRDs may be applied later.
        tracing::warn!(
            k8s.kind = kind,
            "the API server doesn't serve this kind; apply the CRDs: kubectl apply --server-side -f crds/, in a checkout of this version"
        );
    }
}

/// Errors of one watch, and the pauses after them: client-go's, 0.8 s to 30 s.
#[derive(Default)]
struct Failures {
    in_a_row: u32,
    last: Option<Instant>,
    pauses: DefaultBackoff,
}

impl Failures {
    fn add(&mut self, now: Instant) -> Duration {
        if self.last.is_some_and(|last| now >= last + LASTING) {
            self.end();
        }
        self.last = Some(now);
        self.in_a_row = self.in_a_row.saturating_add(1);
        // kube's pauses have no end.
        self.pauses.next().unwrap_or_default()
    }

    fn end(&mut self) {
        self.in_a_row = 0;
        self.pauses.reset();
    }
}

#[cfg(test)]
mod tests;
