//! The states of a watcher, from the list to the watch.

use std::collections::VecDeque;

use kube::api::WatchParams;
use kube::core::Request;
use kube::runtime::watcher::Event;

use crate::util::error_chain;

use super::super::{
    list::Pages,
    object::{Maybe, Object},
};
use super::error::WatchError;
use super::lines::{Lines, Said};
use super::source::Source;

/// State of a watcher.
pub(super) enum State<K> {
    /// The list must begin.
    Empty,
    /// The list arrives as the first events of a watch.
    Streaming { lines: Lines },
    /// The list must begin, and be read in pages.
    Paged,
    /// Pages are being read.
    Listing {
        pages: Box<Pages<K>>,
        items: VecDeque<Maybe<K>>,
        /// The version to watch from, after the last page.
        complete: Option<String>,
    },
    /// The watch must begin.
    Listed { version: String },
    /// The watch is running.
    Watching { version: String, lines: Lines },
}

/// A list, then watches.
pub(super) struct Watcher<K> {
    source: Source<K>,
    pub(super) state: State<K>,
    /// Whether a bookmark arrived, which is no event.
    pub(super) bookmarked: bool,
}

impl<K: Object> Watcher<K> {
    pub(super) fn new(source: Source<K>) -> Self {
        Self {
            source,
            state: State::Empty,
            bookmarked: false,
        }
    }

    /// The next event. After an error the next call continues: a list begins again, a watch resumes.
    pub(super) async fn next(&mut self) -> Result<Event<Maybe<K>>, WatchError> {
        loop {
            // An early return restarts the list unless it sets another state.
            let event = match std::mem::replace(&mut self.state, State::Empty) {
                State::Empty => self.stream().await?,
                State::Streaming { lines } => self.streamed(lines).await,
                State::Paged => {
                    self.state = State::Listing {
                        pages: Box::new(self.source.pages()),
                        items: VecDeque::new(),
                        complete: None,
                    };
                    Some(Event::Init)
                }
                State::Listing {
                    pages,
                    items,
                    complete,
                } => self.listed(pages, items, complete).await?,
                State::Listed { version } => match self.begin(Some(&version)).await {
                    Ok(lines) => {
                        self.state = State::Watching { version, lines };
                        None
                    }
                    Err(error) => {
                        self.state = State::Listed { version };
                        return Err(WatchError::Begin(error));
                    }
                },
                State::Watching { version, lines } => self.watched(version, lines).await?,
            };
            if let Some(event) = event {
                return Ok(event);
            }
        }
    }

    /// Begins a streamed list. If it is refused, pages are next, if they may succeed.
    async fn stream(&mut self) -> Result<Option<Event<Maybe<K>>>, WatchError> {
        let error = match self.begin(None).await {
            Ok(lines) => {
                self.state = State::Streaming { lines };
                return Ok(Some(Event::Init));
            }
            Err(error) => error,
        };
        if let kube::Error::Api(status) = &error
            && !matches!(status.code, 401 | 404)
        {
            self.state = State::Paged;
            // The right to list may be there without the right to watch. The caller reports the missing one first.
            if status.code != 403 {
                // An API server without streamed lists says 422.
                tracing::debug!(
                    k8s.kind = %K::kind(&()), code = status.code, message = status.message,
                    "a streamed list is refused; reading pages"
                );
                return Ok(None);
            }
        }
        Err(WatchError::Begin(error))
    }

    /// Reads on in a streamed list. If it fails, pages are next: they may succeed where this doesn't.
    async fn streamed(&mut self, mut lines: Lines) -> Option<Event<Maybe<K>>> {
        let mut version = String::new();
        let error = match lines.next(&self.source, &mut version).await {
            Ok(Said::Event(Event::Apply(object))) => {
                self.state = State::Streaming { lines };
                return Some(Event::InitApply(object));
            }
            Ok(Said::Bookmark {
                list_complete: true,
            }) if !version.is_empty() => {
                self.state = State::Watching { version, lines };
                return Some(Event::InitDone);
            }
            Ok(Said::Bookmark { .. } | Said::Nothing) => {
                self.state = State::Streaming { lines };
                return None;
            }
            // A list has no way to take back what it has shown.
            Ok(Said::Event(_)) => WatchError::Changed,
            Ok(Said::End) => WatchError::Incomplete,
            Err(error) => error,
        };
        tracing::info!(
            k8s.kind = %K::kind(&()), error = %error_chain(&error),
            "a streamed list failed; reading pages"
        );
        self.state = State::Paged;
        None
    }

    /// The next item of the pages, the end of the list, or another page.
    async fn listed(
        &mut self,
        mut pages: Box<Pages<K>>,
        mut items: VecDeque<Maybe<K>>,
        mut complete: Option<String>,
    ) -> Result<Option<Event<Maybe<K>>>, WatchError> {
        let item = items.pop_front();
        if item.is_none() {
            if let Some(version) = complete {
                self.state = State::Listed { version };
                return Ok(Some(Event::InitDone));
            }
            let page = pages.next().await.map_err(WatchError::List)?;
            items = page.items.into();
            complete = page.last.then_some(page.resource_version);
        }
        self.state = State::Listing {
            pages,
            items,
            complete,
        };
        Ok(item.map(Event::InitApply))
    }

    /// Reads on in a watch. After an error or its end it begins again, from the last version seen.
    async fn watched(
        &mut self,
        mut version: String,
        mut lines: Lines,
    ) -> Result<Option<Event<Maybe<K>>>, WatchError> {
        let said = lines.next(&self.source, &mut version).await;
        self.state = match said {
            Ok(Said::End) | Err(_) => State::Listed { version },
            Ok(_) => State::Watching { version, lines },
        };
        self.bookmarked |= matches!(said, Ok(Said::Bookmark { .. }));
        Ok(match said? {
            Said::Event(event) => Some(event),
            Said::Bookmark { .. } | Said::Nothing | Said::End => None,
        })
    }

    /// Begins a watch from this version, or from the list of what is there. (Mutable, since the lines of a watch can't
    /// be shared between threads.)
    async fn begin(&mut self, version: Option<&str>) -> kube::Result<Lines> {
        let params = WatchParams {
            field_selector: self.source.fields.clone(),
            timeout: u32::try_from(self.source.timeout.as_secs()).ok(),
            send_initial_events: version.is_none(),
            ..WatchParams::default()
        };
        // Without a version the list is as recent as one that is read from etcd.
        let version = version.unwrap_or_default();
        let request = Request::new(self.source.api.resource_url());
        let request = if K::METADATA_ONLY {
            request.watch_metadata(&params, version)
        } else {
            request.watch(&params, version)
        };
        let request = request.map_err(kube::Error::BuildRequest)?;
        let client = self.source.api.clone().into_client();
        Ok(Lines::new(client.request_stream(request).await?))
    }
}
