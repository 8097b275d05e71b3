//! The lines of a watch.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use futures::io::{AsyncBufRead, AsyncBufReadExt};
use kube::Resource;
use kube::core::Status;
use kube::runtime::watcher::Event;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::super::object::{Maybe, Object};
use super::error::WatchError;
use super::source::Source;

/// Silence beyond a watch's timeout after which it counts as hung. The API server ends the watch at that timeout.
const SILENCE: Duration = Duration::from_secs(5);
/// Size above which a line's buffer is not kept for the next line.
const KEPT_BUFFER: usize = 64 * 1024;

/// hyper's message for a connection that ends within a chunk.
const CUT_CHUNK: &str = "unexpected EOF during chunk";
/// Type of a line that advances the version and has no object.
const BOOKMARK: &str = "BOOKMARK";
/// Annotation of the bookmark after which a streamed list is complete.
const LIST_COMPLETE: &str = "k8s.io/initial-events-end";

/// The answer to a watch.
pub(super) struct Lines {
    answer: Pin<Box<dyn AsyncBufRead + Send>>,
    line: Vec<u8>,
}

/// What the next line of a watch is.
#[derive(Debug)]
pub(super) enum Said<K> {
    /// A change of an object.
    Event(Event<Maybe<K>>),
    /// A newer version, and no object.
    Bookmark {
        /// Whether a streamed list is complete.
        list_complete: bool,
    },
    /// A line without effect: its object has no readable metadata.
    Nothing,
    /// The watch has ended.
    End,
}

#[derive(Deserialize)]
struct Line<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Bookmark {
    metadata: BookmarkMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BookmarkMetadata {
    resource_version: String,
    annotations: HashMap<String, String>,
}

impl Lines {
    pub(super) fn new(answer: impl AsyncBufRead + Send + 'static) -> Self {
        Self {
            answer: Box::pin(answer),
            line: Vec::new(),
        }
    }

    /// Reads one line, and advances the version. After an error or the end there is no further line.
    pub(super) async fn next<K: Object>(
        &mut self,
        source: &Source<K>,
        version: &mut String,
    ) -> Result<Said<K>, WatchError> {
        self.line.clear();
        self.line.shrink_to(KEPT_BUFFER);
        let bound = silent_after(source.timeout);
        match timeout(bound, self.answer.read_until(b'\n', &mut self.line)).await {
            Ok(Ok(0)) => return Ok(Said::End),
            Ok(Ok(_)) => {}
            // The usual end of a watch after some minutes.
            Ok(Err(error)) if cut_short(&error) => return Ok(Said::End),
            Ok(Err(error)) => return Err(WatchError::Read(error)),
            Err(_) => {
                tracing::warn!(
                    k8s.kind = %K::kind(&()), seconds = bound.as_secs(),
                    "a watch is silent; restarting it"
                );
                return Ok(Said::End);
            }
        }
        let line: Line<'_> = match serde_json::from_slice(&self.line) {
            Ok(line) => line,
            // The connection ended within the line.
            Err(error) if error.is_eof() => return Ok(Said::End),
            Err(error) => return Err(WatchError::Line(error)),
        };
        read(&line, version, |item| source.decode(item))
    }
}

/// How long a watch with this timeout may be silent.
fn silent_after(timeout: Duration) -> Duration {
    timeout + SILENCE
}

/// What a line is. Advances the version.
fn read<K: Object>(
    line: &Line<'_>,
    version: &mut String,
    decode: impl FnOnce(&RawValue) -> Option<Maybe<K>>,
) -> Result<Said<K>, WatchError> {
    if line.r#type == "ERROR" {
        let status = serde_json::from_str::<Status>(line.object.get()).map_err(WatchError::Line)?;
        return Err(WatchError::Ended(Box::new(status)));
    }
    if line.r#type == BOOKMARK {
        let bookmark = serde_json::from_str::<Bookmark>(line.object.get()).unwrap_or_default();
        let BookmarkMetadata {
            resource_version,
            annotations,
        } = bookmark.metadata;
        advance(version, Some(resource_version));
        let list_complete = annotations
            .get(LIST_COMPLETE)
            .is_some_and(|value| value == "true");
        return Ok(Said::Bookmark { list_complete });
    }
    let Some(object) = decode(line.object) else {
        return Ok(Said::Nothing);
    };
    advance(version, object.meta().resource_version.clone());
    Ok(match line.r#type {
        "ADDED" | "MODIFIED" => Said::Event(Event::Apply(object)),
        "DELETED" => Said::Event(Event::Delete(object)),
        _ => Said::Nothing,
    })
}

fn advance(version: &mut String, seen: Option<String>) {
    if let Some(seen) = seen.filter(|seen| !seen.is_empty()) {
        *version = seen;
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

#[cfg(test)]
mod tests {
    use kube::ResourceExt;

    use super::*;
    use crate::api::Run;
    use crate::controller::apiserver::object::decode_or_skip;

    fn event(text: &str, version: &mut String) -> Result<Said<Run>, WatchError> {
        let line: Line<'_> = serde_json::from_str(text).unwrap();
        read(&line, version, decode_or_skip)
    }

    /// Proves: F-undecodable
    #[test]
    fn an_undecodable_watch_line_is_one_bad_item_and_no_error() {
        let mut version = "1".to_owned();
        let bad = r#"{"type":"ADDED","object":{"metadata":{"name":"bad","resourceVersion":"5"},"spec":[]}}"#;
        let seen = event(bad, &mut version).unwrap();
        let Said::Event(Event::Apply(object)) = seen else {
            panic!("{seen:?}");
        };
        assert!(object.good().is_none() && object.name_any() == "bad");
        assert_eq!(version, "5");
        let nameless = r#"{"type":"ADDED","object":{"metadata":7}}"#;
        assert!(matches!(
            event(nameless, &mut version).unwrap(),
            Said::Nothing
        ));
        assert_eq!(version, "5");
    }

    /// Proves: F-refusing
    #[test]
    fn a_watch_counts_as_silent_5_s_after_its_timeout() {
        let bound = silent_after(Duration::from_secs(270));
        assert_eq!(bound, Duration::from_secs(275));
    }

    #[test]
    fn a_bookmark_moves_the_version_and_an_error_ends_the_watch() {
        let mut version = "1".to_owned();
        let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;
        assert!(matches!(
            event(bookmark, &mut version).unwrap(),
            Said::Bookmark {
                list_complete: false
            }
        ));
        assert_eq!(version, "9");
        let gone = r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"too old"}}"#;
        let error = event(gone, &mut version).unwrap_err();
        assert!(error.is_gone());
    }
}
