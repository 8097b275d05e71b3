//! Any bytes in any chunks: no panic, nothing kept beyond the caps, and the same result as in one
//! piece. The first byte says how the rest is cut.

use crate::service::sse::{Caps, Decoder, ID_BYTES, RETRY_MAX, RETRY_MIN, StreamItem};

const CAPS: Caps = Caps {
    line: 64,
    event: 128,
};

fn decode<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<(StreamItem, Option<String>)> {
    let mut decoder = Decoder::new(CAPS, None);
    let mut items = Vec::new();
    for mut chunk in chunks {
        while let Some(item) = decoder.step(&mut chunk) {
            items.push((item, decoder.last_event_id().map(str::to_owned)));
        }
        assert!(chunk.is_empty());
    }
    if let Some(wait) = decoder.retry() {
        assert!((RETRY_MIN..=RETRY_MAX).contains(&wait));
    }
    // What the stream ends with must not depend on the chunks either.
    items.push((
        StreamItem::Discarded,
        decoder.last_event_id().map(str::to_owned),
    ));
    items
}

pub fn sse(input: &[u8]) {
    let Some((&cut, stream)) = input.split_first() else {
        return;
    };
    let whole = decode(std::iter::once(stream));
    assert_eq!(whole, decode(stream.chunks(usize::from(cut).max(1))));
    for (item, id) in whole {
        assert!(id.is_none_or(|id| !id.is_empty() && id.len() <= ID_BYTES));
        if let StreamItem::Event(event) = item {
            // An invalid byte becomes a character of three.
            assert!(event.data.len() <= 3 * CAPS.event && event.kind.len() <= 3 * CAPS.line);
            assert!(!event.kind.is_empty() && !event.data.contains('\r'));
        }
    }
}
