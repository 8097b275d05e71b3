//! The table, row by row, and the property that chunks never matter.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

const SMALL: Caps = Caps {
    line: 16,
    event: 32,
};
const REAL: Caps = Caps {
    line: 64 * 1024,
    event: 256 * 1024,
};

/// Result of a stream: each item with the id that resumes after it, and the final state.
#[derive(Debug, PartialEq)]
struct Decoded {
    items: Vec<(StreamItem, Option<String>)>,
    last_event_id: Option<String>,
    retry: Option<Duration>,
}

fn decode<'a>(caps: Caps, chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = Decoder::new(caps, None);
    let mut items = Vec::new();
    for mut chunk in chunks {
        while let Some(item) = decoder.step(&mut chunk) {
            items.push((item, decoder.last_event_id().map(str::to_owned)));
        }
        assert!(chunk.is_empty(), "a chunk was not taken whole");
    }
    Decoded {
        items,
        last_event_id: decoder.last_event_id().map(str::to_owned),
        retry: decoder.retry(),
    }
}

fn items(caps: Caps, stream: &[u8]) -> Vec<StreamItem> {
    let whole = decode(caps, [stream]);
    let bytewise = decode(caps, stream.chunks(1));
    assert_eq!(whole, bytewise, "chunks changed the result");
    whole.items.into_iter().map(|(item, _)| item).collect()
}

fn event(kind: &str, data: &str) -> StreamItem {
    StreamItem::Event(Event {
        id: None,
        kind: kind.to_owned(),
        data: data.to_owned(),
    })
}

fn numbered(id: &str, data: &str) -> StreamItem {
    StreamItem::Event(Event {
        id: Some(id.to_owned()),
        kind: "message".to_owned(),
        data: data.to_owned(),
    })
}

/// Proves: X-sse
#[rstest]
#[case::bom(b"\xEF\xBB\xBFdata: a\n\n", vec![event("message", "a")])]
#[case::half_a_bom_is_a_field_nobody_knows(b"\xEF\xBBdata: a\ndata: b\n\n", vec![event("message", "b")])]
#[case::bom_later_is_no_bom(b"data: a\n\n\xEF\xBB\xBFdata: b\n\n", vec![event("message", "a")])]
#[case::lf(b"data: a\ndata: b\n\n", vec![event("message", "a\nb")])]
#[case::cr(b"data: a\rdata: b\r\r", vec![event("message", "a\nb")])]
#[case::crlf(b"data: a\r\ndata: b\r\n\r\n", vec![event("message", "a\nb")])]
#[case::mixed_ends(b"data: a\rdata: b\ndata: c\r\n\n", vec![event("message", "a\nb\nc")])]
#[case::cr_lf_cr_lf_is_two_ends_not_four(b"data: a\r\n\r\ndata: b\r\n\r\n",
    vec![event("message", "a"), event("message", "b")])]
#[case::utf8("data: ä€𝄞\n\n".as_bytes(), vec![event("message", "ä€𝄞")])]
#[case::invalid_utf8(b"data: a\xFFb\xE2\x82\n\n", vec![event("message", "a\u{FFFD}b\u{FFFD}")])]
#[case::a_cut_character_does_not_reach_into_the_next_line(b"data: \xE2\x82\ndata: \xAC\n\n",
    vec![event("message", "\u{FFFD}\n\u{FFFD}")])]
#[case::multi_line(b"data: a\ndata:\ndata\ndata: b\n\n", vec![event("message", "a\n\n\nb")])]
#[case::empty_data_is_an_event(b"data:\n\n", vec![event("message", "")])]
#[case::one_space_is_dropped(b"data:  a\n\ndata:\ta\n\n", vec![event("message", " a"), event("message", "\ta")])]
#[case::a_colon_in_the_value_stays(b"data: a: b\n\n", vec![event("message", "a: b")])]
#[case::kind(b"event: state\ndata: a\n\ndata: b\n\n", vec![event("state", "a"), event("message", "b")])]
#[case::an_empty_kind_is_message(b"event: x\nevent:\ndata: a\n\n", vec![event("message", "a")])]
#[case::a_kind_without_data_is_no_event(b"event: state\n\ndata: a\n\n", vec![event("message", "a")])]
#[case::comments(b":\n: keep-alive\ndata: a\n:data: x\ndata: b\n\n", vec![event("message", "a\nb")])]
#[case::names_are_compared_exactly(b"Data: a\n data: b\ndatax: c\ndata: d\n\n", vec![event("message", "d")])]
#[case::id(b"id: 7\ndata: a\n\ndata: b\n\n", vec![numbered("7", "a"), event("message", "b")])]
#[case::partial_line_at_the_end(b"data: a\n\ndata: b", vec![event("message", "a")])]
fn each_row_of_the_table_is_decoded_as_listed(
    #[case] stream: &[u8],
    #[case] expected: Vec<StreamItem>,
) {
    assert_eq!(items(REAL, stream), expected);
}

/// Proves: R2, X-sse
#[rstest]
#[case::advances_with_an_event(b"id: 7\ndata: a\n\n", Some("7"))]
#[case::advances_without_an_event(b"id: 7\n\n", Some("7"))]
#[case::stays_without_an_id(b"id: 7\n\ndata: a\n\n", Some("7"))]
#[case::waits_for_the_blank_line(b"id: 7\n\nid: 8\ndata: a\n", Some("7"))]
#[case::last_of_a_block_counts(b"id: 7\nid: 8\n\n", Some("8"))]
#[case::nul_is_ignored(b"id: 7\n\nid: 8\0\n\n", Some("7"))]
#[case::another_control_character_is_ignored(b"id: 7\n\nid: 8\x1b\n\n", Some("7"))]
#[case::empty_resets(b"id: 7\n\nid:\n\n", None)]
#[case::utf8("id: ä\n\n".as_bytes(), Some("ä"))]
fn the_id_to_resume_from(#[case] stream: &[u8], #[case] expected: Option<&str>) {
    assert_eq!(decode(REAL, [stream]).last_event_id.as_deref(), expected);
    let bytewise = decode(REAL, stream.chunks(1));
    assert_eq!(bytewise.last_event_id.as_deref(), expected);
}

#[test]
fn a_resumed_stream_begins_at_the_id_it_was_resumed_from() {
    assert_eq!(Decoder::new(REAL, Some("7")).last_event_id(), Some("7"));
    assert_eq!(Decoder::new(REAL, Some("")).last_event_id(), None);
}

#[test]
fn an_id_too_long_to_be_sent_back_is_ignored() {
    let stream = format!("id: 7\n\nid: {}\n\n", "8".repeat(ID_BYTES + 1));
    let decoded = decode(REAL, [stream.as_bytes()]);
    assert_eq!(decoded.last_event_id.as_deref(), Some("7"));
}

#[test]
fn the_id_is_never_ahead_of_the_items_returned() {
    let ids: Vec<_> = decode(
        REAL,
        [&b"id: 1\ndata: a\n\nid: 2\ndata: b\n\nid: 3\n\n"[..]],
    )
    .items
    .into_iter()
    .map(|(_, id)| id.unwrap())
    .collect();
    assert_eq!(ids, ["1", "2"]);
}

/// Proves: X-sse
#[rstest]
#[case("retry: 2500", Some(Duration::from_millis(2500)))]
#[case("retry: 0", Some(RETRY_MIN))]
#[case("retry: 300001", Some(RETRY_MAX))]
#[case("retry: 99999999999999999999999999", Some(RETRY_MAX))]
#[case("retry: 2500ms", None)]
#[case("retry: +2500", None)]
#[case("retry: -1", None)]
#[case("retry:", None)]
#[case("retry: 2500\nretry: no", Some(Duration::from_millis(2500)))]
fn retry_is_digits_only_and_clamped(#[case] line: &str, #[case] expected: Option<Duration>) {
    let stream = format!("{line}\n\n");
    assert_eq!(decode(REAL, [stream.as_bytes()]).retry, expected);
}

/// Proves: X-caps
#[rstest]
#[case::line(SMALL.line + 1, "data: xxxxxxxxxx\n", "data: xxxxxxxxxxx\n", "xxxxxxxxxx")]
#[case::event(
    SMALL.event,
    "data: 345678901\ndata: 345678901\n",
    "data: 345678901\ndata: 3456789012\n",
    "345678901\n345678901"
)]
fn what_has_exactly_the_cap_is_kept_and_one_byte_more_is_not(
    #[case] size: usize,
    #[case] fits: &str,
    #[case] over: &str,
    #[case] data: &str,
) {
    assert_eq!((fits.len(), over.len()), (size, size + 1));
    let whole = items(SMALL, format!("{fits}\n").as_bytes());
    assert_eq!(whole, [event("message", data)]);
    let discarded = items(SMALL, format!("{over}\ndata: b\n\n").as_bytes());
    assert_eq!(discarded, [StreamItem::Discarded, event("message", "b")]);
}

/// Proves: X-sse
#[test]
fn a_discarded_event_is_reported_at_once_and_once() {
    let endless = "data: 34567890123456\n".repeat(5);
    assert_eq!(items(SMALL, endless.as_bytes()), [StreamItem::Discarded]);
    assert_eq!(items(SMALL, &[b'x'; 100]), [StreamItem::Discarded]);
}

/// Found by a change to the code that no test detected: the rest of such an event was taken for a complete one.
#[rstest]
#[case::before("data: b\nevent: x\ndata: 34567890123456\n\n")]
#[case::behind("data: 34567890123456\nevent: x\ndata: b\n\n")]
#[case::between("data: b\ndata: 34567890123456\ndata: c\n\n")]
#[case::behind_the_event_cap("data: 345678901\ndata: 345678901\ndata: 1\ndata: b\n\n")]
fn what_stands_around_a_discarded_line_is_no_event(#[case] stream: &str) {
    assert_eq!(items(SMALL, stream.as_bytes()), [StreamItem::Discarded]);
    let next = format!("{stream}data: z\n\n");
    assert_eq!(
        items(SMALL, next.as_bytes()),
        [StreamItem::Discarded, event("message", "z")]
    );
}

#[rstest]
#[case::id_first("id: 7\ndata: 34567890123456\n\n")]
#[case::id_last("data: 34567890123456\nid: 7\n\n")]
#[case::id_behind_the_event_cap("data: 345678901\ndata: 345678901\ndata: 1\nid: 7\n\n")]
fn the_id_of_a_discarded_event_leads_past_it(#[case] stream: &str) {
    let decoded = decode(SMALL, [stream.as_bytes()]);
    assert_eq!(decoded.items.len(), 1);
    assert_eq!(decoded.items[0].0, StreamItem::Discarded);
    assert_eq!(decoded.last_event_id.as_deref(), Some("7"));
}

#[test]
fn an_endless_comment_takes_no_room_and_discards_nothing() {
    let stream = format!(": {}\ndata: a\n\n", "x".repeat(1000));
    assert_eq!(items(SMALL, stream.as_bytes()), [event("message", "a")]);
}

fn streams() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => "(data|id|event|retry|x)(: ?|)[a-z0-9 ]{0,20}".prop_map(String::into_bytes),
        2 => Just(Vec::new()),
        1 => Just(b"id: 1\0".to_vec()),
        1 => Just("data: ä€𝄞".as_bytes().to_vec()),
        1 => Just(b"\xEF\xBB\xBF".to_vec()),
        1 => ":[a-z]{0,30}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..24),
    ];
    let end = prop_oneof![Just(&b"\n"[..]), Just(&b"\r"[..]), Just(&b"\r\n"[..])];
    prop::collection::vec((line, end), 0..40).prop_map(|lines| {
        lines
            .into_iter()
            .flat_map(|(line, end)| [line, end.to_vec()].concat())
            .collect()
    })
}

proptest! {
    /// Proves: X-sse
    #[test]
    fn chunking_never_changes_the_result(
        stream in streams(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        at.extend([0, stream.len()]);
        at.sort_unstable();
        let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
        for caps in [SMALL, REAL] {
            let whole = decode(caps, [stream.as_slice()]);
            prop_assert_eq!(&whole, &decode(caps, chunks.iter().copied()));
            prop_assert_eq!(&whole, &decode(caps, stream.chunks(1)));
        }
    }

    #[test]
    fn what_is_kept_stays_within_the_caps(stream in streams()) {
        // An invalid byte becomes a character of three.
        let most = 3 * SMALL.event;
        for (item, id) in decode(SMALL, [stream.as_slice()]).items {
            prop_assert!(id.is_none_or(|id| id.len() <= ID_BYTES));
            if let StreamItem::Event(event) = item {
                prop_assert!(event.data.len() + event.kind.len() <= most + "message".len());
            }
        }
    }

    #[test]
    fn a_whole_event_survives_whatever_stands_before_it(stream in streams()) {
        let mut stream = stream;
        stream.extend_from_slice(b"\n\nid: z\ndata: z\n\n");
        let last = decode(SMALL, [stream.as_slice()]).items.pop();
        prop_assert_eq!(last, Some((numbered("z", "z"), Some("z".to_owned()))));
    }
}

/// There is one for each active Run, and most of the time it waits for an event.
/// Proves: P-files
#[test]
fn between_two_events_a_decoder_keeps_no_buffer() {
    let mut decoder = Decoder::new(REAL, None);
    assert_eq!(decoder.buffered(), 0);
    let data = "x".repeat(60 * 1024);
    let event = format!("id: a\nevent: b\ndata: {data}\n\n");
    let mut bytes = event.as_bytes();
    assert!(decoder.step(&mut bytes).is_some());
    assert_eq!((bytes.len(), decoder.buffered()), (0, 0));
}
