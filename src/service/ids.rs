//! The two identifiers of a call: that of the run, and that of the logical create.

use std::fmt;

use http::HeaderValue;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::api::limits::{MAX_RUN_ID, MAX_SENT_KEY};

/// Keeps RFC 3986 unreserved characters and encodes all others. The colon is encoded too, so that an identifier ending
/// in `:cancel` is never taken for a cancellation.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A run's identifier as issued by the service, fit to be one segment of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunId(String);

/// The identifier can't be used in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a runId has 1 to {MAX_RUN_ID} bytes, no control character, and is neither \".\" nor \"..\""
)]
pub struct RunIdError;

impl RunId {
    /// Checks an identifier: 1 to 512 bytes, no control characters, not `.` or `..`, which every URL parser on the way
    /// would resolve.
    pub fn parse(text: &str) -> Result<Self, RunIdError> {
        let fits = (1..=MAX_RUN_ID).contains(&text.len());
        if !fits || text.chars().any(char::is_control) || text == "." || text == ".." {
            return Err(RunIdError);
        }
        Ok(Self(text.to_owned()))
    }

    /// The identifier, verbatim.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The identifier as one segment of a path.
    pub(super) fn segment(&self) -> impl fmt::Display + '_ {
        utf8_percent_encode(&self.0, SEGMENT)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The key that all attempts of one logical create share (rule 1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

/// The key doesn't fit into a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an idempotency key has 1 to {MAX_SENT_KEY} visible ASCII characters")]
pub struct IdempotencyKeyError;

impl IdempotencyKey {
    /// Checks a key: 1 to 512 visible ASCII characters.
    pub fn parse(text: &str) -> Result<Self, IdempotencyKeyError> {
        let fits = (1..=MAX_SENT_KEY).contains(&text.len());
        if fits && text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdempotencyKeyError)
        }
    }

    /// The key, verbatim.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn header(&self) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
        HeaderValue::from_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Proves: X-run-id
    #[rstest]
    #[case("run-1", "run-1")]
    #[case("a/b", "a%2Fb")]
    #[case("../..", "..%2F..")]
    #[case("%2e%2e", "%252e%252e")]
    #[case("r:cancel", "r%3Acancel")]
    #[case("r?x=1#y", "r%3Fx%3D1%23y")]
    #[case("a b+c", "a%20b%2Bc")]
    #[case("ä€", "%C3%A4%E2%82%AC")]
    #[case("a\\b", "a%5Cb")]
    #[case("...", "...")]
    fn an_identifier_stays_one_segment(#[case] text: &str, #[case] segment: &str) {
        let id = RunId::parse(text).unwrap();
        assert_eq!((id.as_str(), &*id.to_string()), (text, text));
        assert_eq!(id.segment().to_string(), segment);
        let url = url::Url::parse(&format!("http://h/api/runs/{}", id.segment())).unwrap();
        assert_eq!(url.path(), format!("/api/runs/{segment}"));
    }

    /// Proves: X-run-id
    #[rstest]
    #[case("")]
    #[case(".")]
    #[case("..")]
    #[case("a\nb")]
    #[case("a\0")]
    #[case("\u{85}")]
    #[case(&"a".repeat(513))]
    fn an_identifier_that_no_path_can_carry_is_refused(#[case] id: &str) {
        assert_eq!(RunId::parse(id), Err(RunIdError));
    }

    #[test]
    fn the_longest_identifiers_are_kept_as_they_are() {
        let longest = "a".repeat(512);
        assert_eq!(RunId::parse(&longest).unwrap().as_str(), longest);
        assert_eq!(IdempotencyKey::parse(&longest).unwrap().as_str(), longest);
    }

    /// Proves: X-headers
    #[rstest]
    #[case("")]
    #[case("a b")]
    #[case("a\r\nX: y")]
    #[case(&"a".repeat(513))]
    fn a_key_that_no_header_can_carry_is_refused(#[case] key: &str) {
        assert_eq!(IdempotencyKey::parse(key), Err(IdempotencyKeyError));
    }
}
