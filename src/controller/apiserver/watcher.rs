//! A list and then a watch, for good: errors are logged and retried with backoff, and where a watch makes no progress the
//! list begins again.
//!
//! # Flow
//! List page by page, watch from the list's version, and watch again from the last version seen whenever the watch ends.
//! The API server answers 410 where it has forgotten that version, in a watch or as its HTTP status: then a list again.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use futures::io::{AsyncBufRead, AsyncBufReadExt};
use futures::{Stream, stream};
use kube::api::WatchParams;
use kube::core::{Request, Status};
use kube::runtime::watcher::Event;
use kube::{Api, Client, Resource};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use crate::decide::backoff;

use super::list::Pages;
use super::object::{Guarded, Object, decode, unreadable};
use crate::controller::chain;

/// Failures in a row after which the list begins again, whatever the failure says.
const FAILURES: u32 = 5;
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(30);
/// A list that was good for so long is repeated as if it were the first one.
const LASTING: Duration = Duration::from_mins(2);
/// The API server ends a watch after its timeout; one that is silent for so much longer hangs.
const SILENCE: Duration = Duration::from_secs(5);
/// A line's buffer that is larger is not kept for the next line.
const KEPT_BUFFER: usize = 64 * 1024;

/// What is watched.
pub struct Source<K> {
    client: Client,
    url: String,
    fields: Option<String>,
    timeout: Duration,
    kind: PhantomData<K>,
}

impl<K: Object> Source<K> {
    /// All objects that the API covers. The API server ends each watch after `timeout`.
    pub fn new(api: &Api<K>, timeout: Duration) -> Self {
        Self {
            client: api.clone().into_client(),
            url: api.resource_url().to_owned(),
            fields: None,
            timeout,
            kind: PhantomData,
        }
    }

    /// Only those that this field selector selects.
    #[must_use]
    pub fn fields(mut self, selector: String) -> Self {
        self.fields = Some(selector);
        self
    }
}

/// Why a list or a watch failed.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// A page could not be read.
    #[error("failed to list")]
    List(#[source] kube::Error),
    /// The watch was refused.
    #[error("failed to begin the watch")]
    Begin(#[source] kube::Error),
    /// The API server ended the watch by an error.
    #[error("the watch was ended")]
    Ended(#[source] Box<Status>),
    /// The connection broke.
    #[error("failed to read the watch")]
    Read(#[source] std::io::Error),
    /// A line that is no watch event.
    #[error("failed to read a line of the watch")]
    Line(#[source] serde_json::Error),
    /// The list had no version to watch from.
    #[error("failed to find the list's resourceVersion")]
    NoVersion,
}

impl WatchError {
    /// The HTTP status of the API server's answer, where it was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::List(kube::Error::Api(status))
            | Self::Begin(kube::Error::Api(status))
            | Self::Ended(status) => Some(status.code),
            _ => None,
        }
    }

    /// The version that was asked for is forgotten.
    fn is_gone(&self) -> bool {
        self.code() == Some(410)
    }

    /// A list or a watch is answered by a bare 404 where its resource does not exist, or exists no more.
    fn is_unknown_kind(&self) -> bool {
        self.code() == Some(404) && !matches!(self, Self::Ended(_))
    }
}

/// Watches for good.
pub fn watch<K: Object>(source: Source<K>) -> impl Stream<Item = Event<Guarded<K>>> + Send {
    stream::unfold(Retried::new(source), |mut retried| async move {
        let event = retried.next().await;
        Some((event, retried))
    })
}

/// Watches until something fails, which is the last item.
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

/// A watcher that is retried.
struct Retried<K> {
    watcher: Watcher<K>,
    trouble: Trouble,
}

impl<K: Object> Retried<K> {
    fn new(source: Source<K>) -> Self {
        Self {
            watcher: Watcher::new(source),
            trouble: Trouble::new(),
        }
    }

    async fn next(&mut self) -> Event<Guarded<K>> {
        loop {
            match self.watcher.next().await {
                Ok(event) => {
                    // A list begins with Init also where it then fails.
                    if !matches!(event, Event::Init) {
                        self.trouble.failures = 0;
                    }
                    return event;
                }
                Err(error) => self.bear::<K>(&error).await,
            }
        }
    }

    async fn bear<L: Resource<DynamicType = ()>>(&mut self, error: &WatchError) {
        let kind = L::kind(&());
        self.trouble.failures = self.trouble.failures.saturating_add(1);
        report(&kind, error, self.trouble.failures);
        let relist = self.trouble.failures >= FAILURES || error.is_gone();
        if relist {
            self.watcher.state = State::Empty;
        }
        tokio::time::sleep(self.trouble.pause(&kind, relist, Instant::now())).await;
    }
}

/// What a watch went through.
struct Trouble {
    /// Errors in a row.
    failures: u32,
    /// Lists in a row that had to be repeated soon.
    relists: u32,
    /// When the present list began.
    since: Instant,
}

impl Trouble {
    fn new() -> Self {
        Self {
            failures: 0,
            relists: 0,
            since: Instant::now(),
        }
    }

    /// How long to wait after an error.
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
        tracing::warn!(k8s.kind = kind, failures, error = %chain(error), "watch failed; retrying");
    } else if failures == 1 {
        // Once a round of failures, not once a list: they may be applied later.
        tracing::warn!(
            k8s.kind = kind,
            "the API server doesn't know this kind; apply the CRDs: run-operator crds | kubectl apply --server-side -f -"
        );
    }
}

type Lines = Pin<Box<dyn AsyncBufRead + Send>>;

/// Where a watcher stands.
enum State<K> {
    /// The list begins.
    Empty,
    /// Pages arrive.
    Listing {
        pages: Box<Pages<K>>,
        items: VecDeque<Guarded<K>>,
        /// The version to watch from, once the last page is there.
        complete: Option<String>,
    },
    /// The watch begins.
    Listed { version: String },
    /// The watch goes on.
    Watching { version: String, lines: Lines },
}

struct Watcher<K> {
    source: Source<K>,
    state: State<K>,
    line: Vec<u8>,
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
        }
    }

    /// The next event. After an error it goes on where that makes sense: a list begins again, a watch is resumed.
    async fn next(&mut self) -> Result<Event<Guarded<K>>, WatchError> {
        loop {
            // What fails in the middle begins a list again, unless it says otherwise.
            match std::mem::replace(&mut self.state, State::Empty) {
                State::Empty => {
                    self.state = State::Listing {
                        pages: Box::new(self.pages()),
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
                State::Listed { version } => match begin(self.start(&version)).await {
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

    fn pages(&self) -> Pages<K> {
        let source = &self.source;
        Pages::new(
            source.client.clone(),
            source.url.clone(),
            source.fields.as_deref(),
        )
    }

    /// The request that begins a watch, and the client that sends it.
    fn start(&self, version: &str) -> kube::Result<(Client, http::Request<Vec<u8>>)> {
        let params = WatchParams {
            field_selector: self.source.fields.clone(),
            timeout: u32::try_from(self.source.timeout.as_secs()).ok(),
            ..WatchParams::default()
        };
        let request = Request::new(&self.source.url);
        let request = if K::METADATA_ONLY {
            request.watch_metadata(&params, version)
        } else {
            request.watch(&params, version)
        };
        let request = request.map_err(kube::Error::BuildRequest)?;
        Ok((self.source.client.clone(), request))
    }

    /// Reads one line. Without the lines given back the watch has ended.
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
            // How a watch of some minutes commonly ends.
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                return (Ok(None), None);
            }
            Ok(Err(error)) => return (Err(WatchError::Read(error)), None),
            Err(_) => {
                tracing::warn!(
                    k8s.kind = %K::kind(&()), seconds = bound.as_secs(),
                    "a watch is silent; beginning it again"
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
        match read(&line, version) {
            Ok(event) => (Ok(event), Some(lines)),
            Err(error) => (Err(error), None),
        }
    }
}

async fn begin(start: kube::Result<(Client, http::Request<Vec<u8>>)>) -> kube::Result<Lines> {
    let (client, request) = start?;
    Ok(Box::pin(client.request_stream(request).await?))
}

async fn page<K: Object>(mut pages: Box<Pages<K>>) -> Result<State<K>, WatchError> {
    let page = pages.next().await.map_err(WatchError::List)?;
    if page.last && page.resource_version.is_empty() {
        return Err(WatchError::NoVersion);
    }
    Ok(State::Listing {
        pages,
        items: page.items.into(),
        complete: page.last.then_some(page.resource_version),
    })
}

/// What a line says. Moves the version on.
fn read<K: Object>(
    line: &Line<'_>,
    version: &mut String,
) -> Result<Option<Event<Guarded<K>>>, WatchError> {
    if line.r#type == "ERROR" {
        let status = serde_json::from_str::<Status>(line.object.get()).map_err(WatchError::Line)?;
        return Err(WatchError::Ended(Box::new(status)));
    }
    if line.r#type == "BOOKMARK" {
        let bookmark = serde_json::from_str::<Bookmark>(line.object.get()).unwrap_or_default();
        move_on(version, Some(bookmark.metadata.resource_version));
        return Ok(None);
    }
    let object = match decode::<K>(line.object) {
        Ok(object) => object,
        Err(error) => {
            unreadable::<K>(line.object, &error);
            return Ok(None);
        }
    };
    move_on(version, object.meta().resource_version.clone());
    Ok(match line.r#type {
        "ADDED" | "MODIFIED" => Some(Event::Apply(object)),
        "DELETED" => Some(Event::Delete(object)),
        _ => None,
    })
}

fn move_on(version: &mut String, seen: Option<String>) {
    if let Some(seen) = seen.filter(|seen| !seen.is_empty()) {
        *version = seen;
    }
}

#[cfg(test)]
#[path = "watcher_tests.rs"]
mod tests;
