//! Who calls, and what a call names: the token, the workspace that it is meant for, the run, and the key of a create.

use std::fmt;

use http::HeaderValue;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};

use crate::api::contract::Contract;
use crate::api::limits::{MAX_RUN_ID, MAX_SENT_KEY, MAX_WORKSPACE_ID};

/// Bytes of a token. Servers refuse headers of 8 KiB and more, so a longer one is no token.
const TOKEN_BYTES: usize = 8 * 1024;
const NO_HEADER: &str =
    "the token contains a character that a header can't carry (white space or non-ASCII)";

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    #[error(
        "a runId has 1 to {MAX_RUN_ID} bytes, no control character, and is neither \".\" nor \"..\""
    )]
    RunId,
    #[error("an idempotency key has 1 to {MAX_SENT_KEY} visible ASCII characters")]
    IdempotencyKey,
    #[error("a workspaceID has 1 to {MAX_WORKSPACE_ID} visible ASCII characters")]
    WorkspaceId,
}

pub(super) fn visible_ascii(bytes: &[u8], most: usize) -> Option<&str> {
    let fits = (1..=most).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
    std::str::from_utf8(bytes).ok().filter(|_| fits)
}

/// A token of the service (rule 3). Never shown, never in a URL (rule 7).
#[derive(Clone)]
pub struct Token(SecretString);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("{0}")]
    Malformed(&'static str),
    #[error("the token has {bytes} bytes, more than the {TOKEN_BYTES} that a header carries")]
    TooLong { bytes: usize },
    /// A key of a model provider (rule 6).
    #[error(
        "this is a model provider's key (it begins with \"{prefix}\"), not a token of the service; \
         it was not sent"
    )]
    ProviderKey { prefix: String },
}

impl Token {
    /// Reads the content of a Secret: white space around a token is dropped (rules 3 and 6).
    pub fn parse(bytes: &[u8], contract: &Contract) -> Result<Self, TokenError> {
        let bytes = bytes.trim_ascii();
        let malformed = |why| Err(TokenError::Malformed(why));
        if bytes.is_empty() {
            return malformed("the token is empty");
        }
        if bytes.iter().any(|b| matches!(b, b'\n' | b'\r')) {
            return malformed("the token has more than one line; store only the token");
        }
        let mut prefixes = contract.provider_key_prefixes().iter();
        if let Some(prefix) = prefixes.find(|prefix| bytes.starts_with(prefix.as_bytes())) {
            let prefix = prefix.clone();
            return Err(TokenError::ProviderKey { prefix });
        }
        let start = bytes.get(..7).unwrap_or_default();
        if start.eq_ignore_ascii_case(b"bearer ") {
            return malformed("the token begins with \"Bearer \"; store only what follows it");
        }
        if bytes.len() > TOKEN_BYTES {
            return Err(TokenError::TooLong { bytes: bytes.len() });
        }
        let text = visible_ascii(bytes, TOKEN_BYTES).ok_or(TokenError::Malformed(NO_HEADER))?;
        Ok(Self(SecretString::from(text)))
    }

    pub(super) fn header(&self) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
        let text = Zeroizing::new(format!("Bearer {}", self.0.expose_secret()));
        let mut value = HeaderValue::from_str(&text)?;
        value.set_sensitive(true);
        Ok(value)
    }

    pub(super) fn exposed(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token([redacted])")
    }
}

/// Compares tokens, so that a refused one is not sent again.
impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }
}

impl Eq for Token {}

/// A workspace's identifier, fit for the `X-Service-Workspace-ID` header (rule 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceId(String);

impl WorkspaceId {
    pub fn parse(text: &str) -> Result<Self, Illegal> {
        let id = visible_ascii(text.as_bytes(), MAX_WORKSPACE_ID).ok_or(Illegal::WorkspaceId)?;
        Ok(Self(id.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Sent as `Authorization: Bearer` (rule 3).
    pub token: Token,
    /// Sent as `X-Service-Workspace-ID` if given (rule 4).
    pub workspace_id: Option<WorkspaceId>,
}

/// RFC 3986's unreserved characters. The colon is encoded: an id that ends in `:cancel` must be no cancellation.
pub(super) const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunId(String);

impl RunId {
    /// 1 to 512 bytes, no control characters, not `.` or `..`, which every URL parser on the way would resolve.
    pub fn parse(text: &str) -> Result<Self, Illegal> {
        let fits = (1..=MAX_RUN_ID).contains(&text.len());
        if !fits || text.chars().any(char::is_control) || text == "." || text == ".." {
            return Err(Illegal::RunId);
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn segment(&self) -> impl fmt::Display + '_ {
        utf8_percent_encode(&self.0, UNRESERVED)
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

impl IdempotencyKey {
    pub fn parse(text: &str) -> Result<Self, Illegal> {
        let key = visible_ascii(text.as_bytes(), MAX_SENT_KEY).ok_or(Illegal::IdempotencyKey)?;
        Ok(Self(key.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn header(&self) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
        HeaderValue::from_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn parse(bytes: &[u8]) -> Result<Token, TokenError> {
        Token::parse(bytes, &Contract::builtin().unwrap())
    }

    /// Proves: R7, X-token
    #[test]
    fn white_space_around_a_token_is_dropped() {
        let token = parse(b" \tabc.def-1\r\n\n").unwrap();
        assert_eq!(token, parse(b"abc.def-1").unwrap());
        assert_ne!(token, parse(b"abc.def-2").unwrap());
        let header = token.header().unwrap();
        assert_eq!(header.as_bytes(), b"Bearer abc.def-1");
        assert!(header.is_sensitive());
        assert!(parse(&[b'a'; 8192]).is_ok(), "the longest");
    }

    /// Proves: R6, R7, X-token
    #[rstest]
    #[case(b"", "is empty")]
    #[case(b"one\ntwo", "more than one line")]
    #[case(b"one\rtwo", "more than one line")]
    #[case(b"one two", "a header can't carry")]
    #[case("t\u{f6}ken".as_bytes(), "a header can't carry")]
    #[case(b"\xff\xfe", "a header can't carry")]
    #[case(b"bearer abc", "begins with \"Bearer \"")]
    #[case(b"sk-abc", "begins with \"sk-\"")]
    #[case(b"\n AIzaXYZ", "begins with \"AIza\"")]
    #[case(&[b'a'; 8193], "has 8193 bytes, more than the 8192")]
    fn what_is_no_token_is_refused(#[case] bytes: &[u8], #[case] why: &str) {
        let error = parse(bytes).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        let is_key = matches!(error, TokenError::ProviderKey { .. });
        assert_eq!(is_key, why.contains("sk-") || why.contains("AIza"));
    }

    /// Proves: R7, X-canary
    #[test]
    fn a_token_shows_nowhere() {
        let credentials = Credentials {
            token: parse(b"canary-token").unwrap(),
            workspace_id: WorkspaceId::parse("ws-1").ok(),
        };
        assert!(!format!("{credentials:?} {credentials:#?}").contains("canary"));
        assert!(format!("{credentials:?}").contains("Token([redacted])"));
    }

    /// Proves: R4, X-token
    #[rstest]
    #[case("")]
    #[case("a b")]
    #[case("a\r\nX: y")]
    #[case("\u{e4}")]
    #[case(&"a".repeat(513))]
    fn what_no_header_can_carry_is_refused(#[case] text: &str) {
        assert_eq!(WorkspaceId::parse(text), Err(Illegal::WorkspaceId));
        assert_eq!(IdempotencyKey::parse(text), Err(Illegal::IdempotencyKey));
    }

    /// Proves: X-forged
    #[rstest]
    #[case("run-1", "run-1")]
    #[case("a/b", "a%2Fb")]
    #[case("../..", "..%2F..")]
    #[case("%2e%2e", "%252e%252e")]
    #[case("r:cancel", "r%3Acancel")]
    #[case("r?x=1#y", "r%3Fx%3D1%23y")]
    #[case("a b+c", "a%20b%2Bc")]
    #[case("ä€", "%C3%A4%E2%82%AC")]
    fn an_identifier_stays_one_segment(#[case] text: &str, #[case] segment: &str) {
        let id = RunId::parse(text).unwrap();
        assert_eq!((id.as_str(), &*id.to_string()), (text, text));
        assert_eq!(id.segment().to_string(), segment);
        let url = url::Url::parse(&format!("http://h/api/runs/{}", id.segment())).unwrap();
        assert_eq!(url.path(), format!("/api/runs/{segment}"));
    }

    /// Proves: X-forged
    #[rstest]
    #[case("")]
    #[case(".")]
    #[case("..")]
    #[case("a\nb")]
    #[case("\u{85}")]
    #[case(&"a".repeat(513))]
    fn an_identifier_that_no_path_can_carry_is_refused(#[case] id: &str) {
        assert_eq!(RunId::parse(id), Err(Illegal::RunId));
    }

    #[test]
    fn the_longest_identifiers_are_kept_as_they_are() {
        let longest = "a".repeat(512);
        assert_eq!(RunId::parse(&longest).unwrap().as_str(), longest);
        assert_eq!(IdempotencyKey::parse(&longest).unwrap().as_str(), longest);
        assert!(WorkspaceId::parse(&longest[..255]).is_ok());
        assert!(WorkspaceId::parse(&longest[..256]).is_err());
    }
}
