//! The operator's view of one resource: everything, or the past.

use axum::body::Bytes;
use serde_json::Value;

use super::Shared;

/// The visible part of a resource.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// Lists are as of this version, and no watch continues beyond it.
    pub(super) at: Option<u64>,
    /// Events of these objects are never delivered.
    pub(super) withheld: Vec<String>,
    /// Every event is delivered so many times more.
    pub(super) doubled: usize,
    /// Watches that began before this number end with a 410 in the stream.
    pub(super) relist: u64,
    /// Watches that began before this number are silent, and don't end.
    pub(super) mute: u64,
}

/// One event of a watch: its line, and what it speaks of.
pub(super) struct Line {
    bytes: Bytes,
    version: u64,
    name: String,
    bookmark: bool,
}

/// The treatment of an event now.
enum Verdict {
    Deliver(usize),
    Drop,
    Hold,
}

impl Line {
    fn read(bytes: Bytes) -> Self {
        let event: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let meta = &event["object"]["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            version: text(&meta["resourceVersion"]).parse().unwrap_or_default(),
            name: text(&meta["name"]),
            bookmark: event["type"] == "BOOKMARK",
            bytes,
        }
    }

    fn verdict(&self, view: &View) -> Verdict {
        if view.at.is_some_and(|at| self.version > at) {
            return Verdict::Hold;
        }
        if !self.bookmark && view.withheld.contains(&self.name) {
            return Verdict::Drop;
        }
        Verdict::Deliver(if self.bookmark { 1 } else { 1 + view.doubled })
    }
}

/// A watch on its way through the proxy.
pub(super) struct Watch<S> {
    pub(super) shared: std::sync::Arc<Shared>,
    pub(super) resource: String,
    pub(super) upstream: S,
    pub(super) number: u64,
    pub(super) rest: Vec<u8>,
    pub(super) lines: std::collections::VecDeque<Line>,
    pub(super) over: bool,
}

impl<S, E> Watch<S>
where
    S: futures::Stream<Item = Result<Bytes, E>> + Unpin,
{
    /// The next bytes for the operator; none at the end.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        use futures::StreamExt;
        let mut changed = self.shared.changed.subscribe();
        loop {
            changed.borrow_and_update();
            if self.over {
                return None;
            }
            let view = self.shared.view(&self.resource);
            if view.mute > self.number {
                std::future::pending::<()>().await;
            }
            if view.relist > self.number {
                self.over = true;
                return Some(Bytes::from_static(GONE));
            }
            let verdict = self.lines.front().map(|line| line.verdict(&view));
            match verdict {
                Some(Verdict::Deliver(times)) => {
                    let line = self.lines.pop_front()?;
                    return Some(Bytes::from(line.bytes.repeat(times)));
                }
                Some(Verdict::Drop) => {
                    self.lines.pop_front();
                }
                Some(Verdict::Hold) => changed.changed().await.ok()?,
                None => tokio::select! {
                    chunk = self.upstream.next() => self.take(&chunk?.ok()?),
                    looked = changed.changed() => looked.ok()?,
                },
            }
        }
    }

    fn take(&mut self, chunk: &[u8]) {
        self.rest.extend_from_slice(chunk);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            self.lines.push_back(Line::read(Bytes::from(line)));
        }
    }
}

/// The API server's answer where a watch's version is too old.
pub(super) const GONE: &[u8] = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}
"#;
