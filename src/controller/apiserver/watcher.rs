//! A list and then an endless watch. Errors are logged and retried with backoff; if the watch makes no progress the
//! list begins again.
//!
//! # Flow
//! List page by page and watch from the list's version. When a watch ends, watch again from the last version seen. The
//! API server answers 410 if it no longer has that version, in a watch or as its HTTP status: then list again.

use std::collections::VecDeque;
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::io::{AsyncBufRead, AsyncBufReadExt};
use futures::{Stream, stream};
use kube::api::WatchParams;
use kube::core::{Request, Status};
use kube::runtime::watcher::Event;
use kube::{Api, Resource};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use crate::decide::backoff;
use crate::util::error_chain;

use super::{
    guarded::Guarded,
    list::Pages,
    object::{Object, decode_or_skip},
};

/// Failures in a row after which the list begins again, whatever the error.
const FAILURES: u32 = 5;
/// Longest pause.
const LONGEST: Duration = Duration::from_secs(30);
/// Time after which a repeated list counts as the first one again.
const LASTING: Duration = Duration::from_mins(2);
/// Silence beyond a watch's timeout after which it counts as hung. The API server ends the watch at that timeout.
const SILENCE: Duration = Duration::from_secs(5);
/// Size above which a line's buffer is not kept for the next line.
const KEPT_BUFFER: usize = 64 * 1024;

/// hyper's message for a connection that ends within a chunk.
const CUT_CHUNK: &str = "unexpected EOF during chunk";
/// Type of a line that advances the version and has no object.
const BOOKMARK: &str = "BOOKMARK";

/// Finds an object that this process has decoded already, by uid and resourceVersion.
type Known<K> = Box<dyn Fn(&str, &str) -> Option<Arc<K>> + Send>;

/// Source of a watch.
pub struct Source<K> {
    api: Api<K>,
    fields: Option<String>,
    timeout: Duration,
    known: Known<K>,
}

impl<K: Object> Source<K> {
    /// All objects that the API covers. The API server ends each watch after `timeout`.
    pub fn new(api: Api<K>, timeout: Duration) -> Self {
        Self {
            api,
            fields: None,
            timeout,
            known: Box::new(|_, _| None),
        }
    }

    /// Takes objects from here instead of decoding them: those that this process has written itself.
    #[must_use]
    pub fn known(mut self, find: impl Fn(&str, &str) -> Option<Arc<K>> + Send + 'static) -> Self {
        self.known = Box::new(find);
        self
    }

    /// Restricts the watch with this field selector.
    #[must_use]
    pub fn fields(mut self, selector: String) -> Self {
        self.fields = Some(selector);
        self
    }

    fn decode(&self, item: &RawValue) -> Option<Guarded<K>> {
        let identity = serde_json::from_str::<Identified<'_>>(item.get());
        let known = identity.ok().and_then(|item| {
            let Identity {
                uid,
                resource_version,
            } = item.metadata;
            (self.known)(uid?, resource_version?)
        });
        known.map_or_else(|| decode_or_skip(item), |known| Some(Guarded(Ok(known))))
    }
}

/// What identifies a version of an object.
#[derive(Deserialize)]
struct Identified<'a> {
    #[serde(borrow)]
    metadata: Identity<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Identity<'a> {
    uid: Option<&'a str>,
    resource_version: Option<&'a str>,
}

/// Error of a list or a watch.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// A page could not be read.
    #[error("failed to list")]
    List(#[source] kube::Error),
    /// The watch was refused.
    #[error("failed to begin the watch")]
    Begin(#[source] kube::Error),
    /// The API server ended the watch with an error.
    #[error("the watch was ended")]
    Ended(#[source] Box<Status>),
    /// The connection broke.
    #[error("failed to read the watch")]
    Read(#[source] io::Error),
    /// A line was no watch event.
    #[error("failed to read a line of the watch")]
    Line(#[source] serde_json::Error),
}

impl WatchError {
    /// HTTP status of the API server's answer, if there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::List(kube::Error::Api(status))
            | Self::Begin(kube::Error::Api(status))
            | Self::Ended(status) => Some(status.code),
            _ => None,
        }
    }

    /// Whether the requested version is no longer available.
    fn is_gone(&self) -> bool {
        self.code() == Some(410)
    }

    /// Whether the resource doesn't exist: a list or a watch is then answered with a bare 404.
    fn is_unknown_kind(&self) -> bool {
        self.code() == Some(404) && !matches!(self, Self::Ended(_))
    }
}

/// Watches endlessly.
pub fn watch<K: Object>(source: Source<K>) -> impl Stream<Item = Event<Guarded<K>>> + Send {
    stream::unfold(Retried::new(source), |mut retried| async move {
        let event = retried.next().await;
        Some((event, retried))
    })
}

/// Watches until something fails; the error is the last item.
pub fn watch_once<K: Object>(
    source: Source<K>,
) -> impl Stream<Item = Result<Event<Guarded<K>>, WatchError>> + Send {
    stream::unfold(Some(Watcher::new(source)), |watcher| async move {
        let mut watcher = watcher?;
        match watcher.next().await {
            Ok(event) => Some((Ok(event), Some(watcher))),
            Err(error) => Some((Err(error), None)),
        }
    })
}

/// A watcher with retries.
struct Retried<K> {
    watcher: Watcher<K>,
    backoff: Backoff,
}

impl<K: Object> Retried<K> {
    fn new(source: Source<K>) -> Self {
        Self {
            watcher: Watcher::new(source),
            backoff: Backoff::new(),
        }
    }

    async fn next(&mut self) -> Event<Guarded<K>> {
        loop {
            let seen = self.watcher.next().await;
            match self.judge(seen) {
                Ok(event) => return event,
                Err(pause) => tokio::time::sleep(pause).await,
            }
        }
    }

    /// Counts failures. Returns an event, or the pause after an error.
    fn judge(
        &mut self,
        seen: Result<Event<Guarded<K>>, WatchError>,
    ) -> Result<Event<Guarded<K>>, Duration> {
        if std::mem::take(&mut self.watcher.bookmarked) {
            self.backoff.failures = 0;
        }
        match seen {
            Ok(event) => {
                // A list that fails later also begins and yields its first pages.
                if !matches!(event, Event::Init | Event::InitApply(_)) {
                    self.backoff.failures = 0;
                }
                Ok(event)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&mut self, error: &WatchError) -> Duration {
        let kind = K::kind(&());
        self.backoff.failures = self.backoff.failures.saturating_add(1);
        report(&kind, error, self.backoff.failures);
        let relist = self.backoff.failures >= FAILURES || error.is_gone();
        if relist {
            self.watcher.state = State::Empty;
        }
        self.backoff.pause(&kind, relist, Instant::now())
    }
}

/// Failures of a watch.
struct Backoff {
    /// Errors in a row.
    failures: u32,
    /// Lists in a row that were repeated soon.
    relists: u32,
    /// Start of the present list.
    since: Instant,
}

impl Backoff {
    fn new() -> Self {
        Self {
            failures: 0,
            relists: 0,
            since: Instant::now(),
        }
    }

    /// Pause after an error.
    fn pause(&mut self, kind: &str, relist: bool, now: Instant) -> Duration {
        if relist {
            let lasted = now.saturating_duration_since(self.since) >= LASTING;
            self.relists = if lasted {
                1
            } else {
                self.relists.saturating_add(1)
            };
        }
        let attempt = self.failures.max(self.relists);
        let pause = backoff::delay(attempt, None, backoff::seed(kind, attempt)).min(LONGEST);
        if relist {
            self.failures = 0;
            self.since = now + pause;
        }
        pause
    }
}

fn report(kind: &str, error: &WatchError, failures: u32) {
    if !error.is_unknown_kind() {
        tracing::warn!(k8s.kind = kind, failures, error = %error_chain(error), "watch failed; retrying");
    } else if failures == 1 {
        // Logged once per series of failures, not per list: the CRDs may be applied later.
        tracing::warn!(
            k8s.kind = kind,
            "the API server doesn't serve this kind; apply the CRDs: run-operator crds | kubectl apply --server-side -f -"
        );
    }
}

type Lines = Pin<Box<dyn AsyncBufRead + Send>>;

/// State of a watcher.
enum State<K> {
    /// The list must begin.
    Empty,
    /// Pages are being read.
    Listing {
        pages: Box<Pages<K>>,
        items: VecDeque<Guarded<K>>,
        /// The version to watch from, after the last page.
        complete: Option<String>,
    },
    /// The watch must begin.
    Listed { version: String },
    /// The watch is running.
    Watching { version: String, lines: Lines },
}

struct Watcher<K> {
    source: Source<K>,
    state: State<K>,
    line: Vec<u8>,
    /// Whether a bookmark arrived, which is no event.
    bookmarked: bool,
}

#[derive(Deserialize)]
struct Line<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Default, Deserialize)]
struct Bookmark {
    #[serde(default)]
    metadata: BookmarkMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    #[serde(default)]
    resource_version: String,
}

impl<K: Object> Watcher<K> {
    fn new(source: Source<K>) -> Self {
        Self {
            source,
            state: State::Empty,
            line: Vec::new(),
            bookmarked: false,
        }
    }

    /// The next event. After an error the next call continues: a list begins again, a watch resumes.
    async fn next(&mut self) -> Result<Event<Guarded<K>>, WatchError> {
        loop {
            // An early return restarts the list unless it sets another state.
            match std::mem::replace(&mut self.state, State::Empty) {
                State::Empty => {
                    let source = &self.source;
                    let pages = Pages::new(source.api.clone(), source.fields.as_deref());
                    self.state = State::Listing {
                        pages: Box::new(pages),
                        items: VecDeque::new(),
                        complete: None,
                    };
                    return Ok(Event::Init);
                }
                State::Listing {
                    pages,
                    mut items,
                    complete,
                } => {
                    if let Some(item) = items.pop_front() {
                        self.state = State::Listing {
                            pages,
                            items,
                            complete,
                        };
                        return Ok(Event::InitApply(item));
                    }
                    if let Some(version) = complete {
                        self.state = State::Listed { version };
                        return Ok(Event::InitDone);
                    }
                    self.state = page(pages).await?;
                }
                State::Listed { version } => match self.begin(&version).await {
                    Ok(lines) => self.state = State::Watching { version, lines },
                    Err(error) => {
                        self.state = State::Listed { version };
                        return Err(WatchError::Begin(error));
                    }
                },
                State::Watching { mut version, lines } => {
                    let (event, lines) = self.follow(&mut version, lines).await;
                    self.state = match lines {
                        Some(lines) => State::Watching { version, lines },
                        None => State::Listed { version },
                    };
                    if let Some(event) = event.transpose() {
                        return event;
                    }
                }
            }
        }
    }

    /// Begins a watch from this version. (Mutable, since the lines of a watch can't be shared between threads.)
    async fn begin(&mut self, version: &str) -> kube::Result<Lines> {
        let params = WatchParams {
            field_selector: self.source.fields.clone(),
            timeout: u32::try_from(self.source.timeout.as_secs()).ok(),
            ..WatchParams::default()
        };
        let request = Request::new(self.source.api.resource_url());
        let request = if K::METADATA_ONLY {
            request.watch_metadata(&params, version)
        } else {
            request.watch(&params, version)
        };
        let request = request.map_err(kube::Error::BuildRequest)?;
        let client = self.source.api.clone().into_client();
        Ok(Box::pin(client.request_stream(request).await?))
    }

    /// Reads one line. If no lines are returned the watch has ended.
    async fn follow(
        &mut self,
        version: &mut String,
        mut lines: Lines,
    ) -> (Result<Option<Event<Guarded<K>>>, WatchError>, Option<Lines>) {
        self.line.clear();
        self.line.shrink_to(KEPT_BUFFER);
        let bound = self.source.timeout + SILENCE;
        match timeout(bound, lines.read_until(b'\n', &mut self.line)).await {
            Ok(Ok(0)) => return (Ok(None), None),
            Ok(Ok(_)) => {}
            // The usual end of a watch after some minutes.
            Ok(Err(error)) if cut_short(&error) => return (Ok(None), None),
            Ok(Err(error)) => return (Err(WatchError::Read(error)), None),
            Err(_) => {
                tracing::warn!(
                    k8s.kind = %K::kind(&()), seconds = bound.as_secs(),
                    "a watch is silent; restarting it"
                );
                return (Ok(None), None);
            }
        }
        let line: Line<'_> = match serde_json::from_slice(&self.line) {
            Ok(line) => line,
            // The connection ended within the line.
            Err(error) if error.is_eof() => return (Ok(None), None),
            Err(error) => return (Err(WatchError::Line(error)), None),
        };
        self.bookmarked |= line.r#type == BOOKMARK;
        match read(&line, version, |item| self.source.decode(item)) {
            Ok(event) => (Ok(event), Some(lines)),
            Err(error) => (Err(error), None),
        }
    }
}

/// Whether a body ended early. The client wraps the cause, and each kind of early end has its own form.
fn cut_short(error: &io::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let met = error.downcast_ref::<io::Error>();
        let incomplete = error.downcast_ref::<hyper::Error>();
        if met.is_some_and(|met| met.kind() == io::ErrorKind::UnexpectedEof)
            || incomplete.is_some_and(hyper::Error::is_incomplete_message)
            || error.to_string().contains(CUT_CHUNK)
        {
            return true;
        }
        cause = match met {
            // Its inner error is not among its sources.
            Some(met) => met
                .get_ref()
                .map(|inner| -> &(dyn Error + 'static) { inner }),
            None => error.source(),
        };
    }
    false
}

async fn page<K: Object>(mut pages: Box<Pages<K>>) -> Result<State<K>, WatchError> {
    let page = pages.next().await.map_err(WatchError::List)?;
    Ok(State::Listing {
        pages,
        items: page.items.into(),
        complete: page.last.then_some(page.resource_version),
    })
}

/// The event of a line. Advances the version.
fn read<K: Object>(
    line: &Line<'_>,
    version: &mut String,
    decode: impl FnOnce(&RawValue) -> Option<Guarded<K>>,
) -> Result<Option<Event<Guarded<K>>>, WatchError> {
    if line.r#type == "ERROR" {
        let status = serde_json::from_str::<Status>(line.object.get()).map_err(WatchError::Line)?;
        return Err(WatchError::Ended(Box::new(status)));
    }
    if line.r#type == BOOKMARK {
        let bookmark = serde_json::from_str::<Bookmark>(line.object.get()).unwrap_or_default();
        advance(version, Some(bookmark.metadata.resource_version));
        return Ok(None);
    }
    let Some(object) = decode(line.object) else {
        return Ok(None);
    };
    advance(version, object.meta().resource_version.clone());
    Ok(match line.r#type {
        "ADDED" | "MODIFIED" => Some(Event::Apply(object)),
        "DELETED" => Some(Event::Delete(object)),
        _ => None,
    })
}

fn advance(version: &mut String, seen: Option<String>) {
    if let Some(seen) = seen.filter(|seen| !seen.is_empty()) {
        *version = seen;
    }
}

#[cfg(test)]
mod tests;
