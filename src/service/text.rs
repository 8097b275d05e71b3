//! Makes texts of the service fit to be shown: bounded, on one line, and with a safe request id.

use std::borrow::Cow;
use std::error::Error;

/// Bytes of a message for a person.
pub(super) const MESSAGE_BYTES: usize = 512;
/// Maximum characters of a request id; a longer one is dropped.
pub(super) const REQUEST_ID_BYTES: usize = 128;

const MARK: char = '…';

/// Cuts at a character boundary so that the text has at most `max` bytes, with an ellipsis for the rest.
pub(super) fn cut(mut text: String, max: usize) -> String {
    if text.len() <= max {
        return text;
    }
    let mut end = max.saturating_sub(MARK.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.push(MARK);
    text
}

/// One line of at most `max` bytes: control characters become spaces.
pub(super) fn one_line(text: &str, max: usize) -> String {
    // Cutting the input first keeps the work bounded whatever was sent.
    let text: String = text
        .chars()
        .take(max + 1)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    cut(text.trim().to_owned(), max)
}

/// An error with all its causes, on one line of at most [`MESSAGE_BYTES`].
pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let cause_text = error.to_string();
        // reqwest's own texts ("error sending request") are less specific than the layers around it, and some libraries
        // repeat their cause in their own text.
        let says_less = error.is::<reqwest::Error>() && error.source().is_some();
        if !says_less && !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        cause = error.source();
    }
    one_line(&text, MESSAGE_BYTES)
}

/// A request id fit to be shown and logged: visible ASCII, 1 to 128 characters (rule 11).
pub(super) fn request_id(text: &[u8]) -> Option<String> {
    let fits = (1..=REQUEST_ID_BYTES).contains(&text.len());
    if !fits || !text.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    String::from_utf8(text.to_vec()).ok()
}

/// The text of a body, whatever charset its header names: JSON is UTF-8, and one invalid byte is no reason to lose the
/// rest.
pub(super) fn lossy(body: &[u8]) -> Cow<'_, str> {
    let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
    String::from_utf8_lossy(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_stays_within_its_bytes_and_within_its_characters() {
        for max in 3..20 {
            let text = cut("aäöü€𝄞bcdefghijk".to_owned(), max);
            assert!(text.len() <= max, "{text:?} is longer than {max}");
            assert!(text.ends_with('…') || text.ends_with('k'));
        }
        assert_eq!(cut("abc".to_owned(), 3), "abc");
    }

    #[test]
    fn a_line_that_was_cut_shows_it_and_one_that_fits_is_whole() {
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abc…");
    }

    #[test]
    fn control_characters_never_reach_a_log_line() {
        assert_eq!(one_line("a\r\nb\u{1b}[31m\u{85}\0", 64), "a  b [31m");
    }

    /// Proves: R11, X-headers
    #[test]
    fn a_request_id_that_could_forge_a_log_line_is_dropped() {
        assert_eq!(request_id(b"req-1").as_deref(), Some("req-1"));
        assert_eq!(request_id(b""), None);
        assert_eq!(request_id(b"a b"), None);
        assert_eq!(request_id(b"a\nb"), None);
        assert_eq!(request_id("ä".as_bytes()), None);
        assert_eq!(request_id(&[b'a'; 129]), None);
        assert!(request_id(&[b'a'; 128]).is_some());
    }
}
