//! Server-sent events, decoded without I/O. (`sse-stream` 0.3.0 ends at invalid UTF-8, and buffers without bound.)

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The id in this same block, to drop duplicates; [`Decoder::last_event_id`] resumes a stream (rule 2).
    pub id: Option<String>,
    /// The kind, `message` if the block names none.
    pub kind: String,
    /// The data, its lines joined by LF.
    pub data: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamItem {
    /// A complete event. A hint: the state of the run is known only after a `GET`.
    Event(Event),
    /// An event or a line was larger than its cap and is lost: refresh by `GET`. Reported at once, and once for each.
    Discarded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Bytes of one line, its end not counted.
    pub line: usize,
    /// Bytes of one event: all its lines but comments, each with one byte for its end.
    pub event: usize,
}

pub const RETRY_MIN: Duration = Duration::from_secs(1);
pub const RETRY_MAX: Duration = Duration::from_mins(5);
/// Bytes of an id that can be sent back as `Last-Event-ID`; a longer one is ignored.
pub const ID_BYTES: usize = 256;

const BOM: &[u8] = b"\xEF\xBB\xBF";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Beginning(usize),
    LineStart,
    /// After a CR: an LF belongs to it.
    AfterCr,
    Line,
    /// Within a line that is dropped: a comment, or the rest of a line over the cap.
    Skipped,
}

/// Decodes an event stream, whatever its chunks. Holds at most one line and one event, within its [`Caps`].
#[derive(Debug)]
pub struct Decoder {
    caps: Caps,
    state: State,
    line: Vec<u8>,
    block: Block,
    last_event_id: Option<String>,
    retry: Option<Duration>,
}

#[derive(Debug, Default)]
struct Block {
    id: Option<String>,
    kind: Vec<u8>,
    data: Option<Vec<u8>>,
    bytes: usize,
    discarded: bool,
}

impl Decoder {
    pub fn new(caps: Caps, last_event_id: Option<&str>) -> Self {
        Self {
            caps,
            state: State::Beginning(0),
            line: Vec::new(),
            block: Block::default(),
            last_event_id: last_event_id.filter(|id| !id.is_empty()).map(str::to_owned),
            retry: None,
        }
    }

    /// Consumes `input` up to the end of the next item. `None`: all bytes were consumed, and more are needed.
    pub fn step(&mut self, input: &mut &[u8]) -> Option<StreamItem> {
        while let Some(&byte) = input.first() {
            let item = match self.state {
                State::Beginning(seen) => {
                    self.beginning(seen, byte, input);
                    None
                }
                State::AfterCr => {
                    if byte == b'\n' {
                        *input = &input[1..];
                    }
                    self.state = State::LineStart;
                    None
                }
                State::LineStart => {
                    self.state = match byte {
                        b':' => State::Skipped,
                        _ => State::Line,
                    };
                    None
                }
                State::Line => self.gather(input),
                State::Skipped => {
                    if let (_, Some(end)) = split_line(input) {
                        self.state = end;
                    }
                    None
                }
            };
            if item.is_some() {
                return item;
            }
        }
        None
    }

    /// The id to resume from after the items returned so far (rule 2); an empty one resets it.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }

    /// The delay that the service asked for before a reconnect, clamped to 1 s to 5 min.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    #[cfg(test)]
    pub(super) fn buffered(&self) -> usize {
        let data = self.block.data.as_ref().map_or(0, Vec::capacity);
        let id = self.block.id.as_ref().map_or(0, String::capacity);
        self.line.capacity() + self.block.kind.capacity() + data + id
    }

    /// A BOM is dropped; bytes that only begin like one belong to the first line.
    fn beginning(&mut self, seen: usize, byte: u8, input: &mut &[u8]) {
        if BOM.get(seen) == Some(&byte) {
            *input = &input[1..];
            self.state = if seen + 1 == BOM.len() {
                State::LineStart
            } else {
                State::Beginning(seen + 1)
            };
        } else {
            self.line.extend(BOM.iter().take(seen));
            self.state = if seen == 0 {
                State::LineStart
            } else {
                State::Line
            };
        }
    }

    fn gather(&mut self, input: &mut &[u8]) -> Option<StreamItem> {
        let (part, end) = split_line(input);
        if self.line.len() + part.len() > self.caps.line {
            self.line = Vec::new();
            self.state = end.unwrap_or(State::Skipped);
            return self.discard();
        }
        self.line.extend_from_slice(part);
        self.state = end?;
        let mut line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.dispatch();
        }
        let item = self.field(&line);
        // Its buffer is used again, but not kept until the next event.
        line.clear();
        self.line = line;
        item
    }

    fn field(&mut self, line: &[u8]) -> Option<StreamItem> {
        let (name, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        // Also for an event that is being discarded: its id leads past it.
        if name == b"id" {
            self.id(value);
        } else if name == b"retry" {
            self.retry = wait(value).or(self.retry);
        }
        // The rest of a discarded event is not an event of the service.
        if self.block.discarded {
            return None;
        }
        self.block.bytes = self.block.bytes.saturating_add(line.len() + 1);
        if self.block.bytes > self.caps.event {
            return self.discard();
        }
        match name {
            b"data" => match &mut self.block.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.block.data = Some(value.to_vec()),
            },
            b"event" => self.block.kind = value.to_vec(),
            _ => {}
        }
        None
    }

    /// The standard ignores an id with NUL; an id that no header can carry back is ignored, too.
    fn id(&mut self, value: &[u8]) {
        let id = String::from_utf8_lossy(value);
        if id.len() <= ID_BYTES && !id.chars().any(char::is_control) {
            self.block.id = Some(id.into_owned());
        }
    }

    fn discard(&mut self) -> Option<StreamItem> {
        let first = !self.block.discarded;
        self.block = Block {
            id: self.block.id.take(),
            discarded: true,
            ..Block::default()
        };
        first.then_some(StreamItem::Discarded)
    }

    /// A blank line: the block is complete. A block without data is no event, but its id counts.
    fn dispatch(&mut self) -> Option<StreamItem> {
        let block = std::mem::take(&mut self.block);
        if let Some(id) = &block.id {
            self.last_event_id = (!id.is_empty()).then(|| id.clone());
        }
        let data = block.data?;
        let kind = match block.kind.as_slice() {
            b"" => "message".into(),
            kind => String::from_utf8_lossy(kind),
        };
        Some(StreamItem::Event(Event {
            id: block.id.filter(|id| !id.is_empty()),
            kind: kind.into_owned(),
            data: String::from_utf8_lossy(&data).into_owned(),
        }))
    }
}

/// Consumes `input` up to and including the line's end; returns the state after it, if there is one.
fn split_line<'a>(input: &mut &'a [u8]) -> (&'a [u8], Option<State>) {
    let all = *input;
    let Some(at) = all.iter().position(|&byte| byte == b'\n' || byte == b'\r') else {
        *input = &[];
        return (all, None);
    };
    *input = &all[at + 1..];
    let end = match all[at] {
        b'\r' => State::AfterCr,
        _ => State::LineStart,
    };
    (&all[..at], Some(end))
}

/// `retry:` in milliseconds, digits only.
fn wait(value: &[u8]) -> Option<Duration> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // More digits than a number holds still mean "very long".
    let wait = std::str::from_utf8(value)
        .ok()?
        .parse()
        .map_or(RETRY_MAX, Duration::from_millis);
    Some(wait.clamp(RETRY_MIN, RETRY_MAX))
}

#[cfg(test)]
mod tests;
