//! Address of the service, checked against the operator's allow-list before anything is sent.

use std::fmt;

use percent_encoding::percent_decode_str;
use url::{Host, Url};

use crate::api::limits::MAX_BASE_URL;

/// The service's address with its version segment (rule 13), no trailing slash: allow-listed, so safe for a token.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BaseUrl {
    text: String,
    /// Bytes of `text` up to its path.
    origin: usize,
}

/// Reason why an address is refused. Names no part of it that could hold a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BaseUrlError {
    #[error(
        "failed to parse the base URL (write it in full, as in https://runs.example.com/api/v1)"
    )]
    Parse(#[source] url::ParseError),
    /// White space, a control character or a backslash, which URL parsers read in different ways.
    #[error("the base URL contains white space, a control character or a backslash; remove it")]
    IllegalCharacter,
    #[error("the base URL has more than {MAX_BASE_URL} characters")]
    TooLong,
    #[error("the base URL must begin with https://")]
    NotHttp,
    #[error("the base URL names no host")]
    NoHost,
    #[error("the base URL contains a user name or password; the token is configured separately")]
    UserInfo,
    #[error("the base URL contains a query or a fragment; end it after the path, as in /api/v1")]
    QueryOrFragment,
    /// A path that servers read in different ways, so that it may lead out of an allowed one.
    #[error(
        "the base URL's path contains a percent-encoded slash, backslash, per cent or control character, \
         or a segment that begins with \"..\"; write the path plainly"
    )]
    AmbiguousPath,
    #[error("the base URL is plain http to {host}, which would send the token readable; use https")]
    InsecureHttp { host: String },
    #[error("the base URL {url} is not on the operator's list of allowed base URLs")]
    NotAllowed { url: String },
}

/// Where tokens may be sent. An entry allows its own path and every path below it, by whole segments.
#[derive(Clone, Debug, Default)]
pub struct AllowList {
    entries: Vec<BaseUrl>,
    allow_insecure_http: bool,
}

impl AllowList {
    pub fn parse<S: AsRef<str>>(
        entries: impl IntoIterator<Item = S>,
        allow_insecure_http: bool,
    ) -> Result<Self, BaseUrlError> {
        let entries = entries
            .into_iter()
            .map(|entry| BaseUrl::read(entry.as_ref(), allow_insecure_http))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            entries,
            allow_insecure_http,
        })
    }

    fn allows(&self, url: &BaseUrl) -> bool {
        // Both are normalised, so that equal addresses are equal texts.
        self.entries.iter().any(|entry| {
            let below = url.text.strip_prefix(&entry.text);
            below.is_some_and(|path| path.is_empty() || path.starts_with('/'))
        })
    }
}

impl BaseUrl {
    pub fn parse(text: &str, allowed: &AllowList) -> Result<Self, BaseUrlError> {
        let url = Self::read(text, allowed.allow_insecure_http)?;
        if !allowed.allows(&url) {
            return Err(BaseUrlError::NotAllowed { url: url.text });
        }
        Ok(url)
    }

    /// The normalised address: no trailing slash, default port left out.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// An address as returned by [`Self::as_str`], allowed or not; `None` if it is no base URL.
    pub fn normalised(text: &str) -> Option<String> {
        Self::read(text, true).ok().map(|url| url.text)
    }

    pub fn origin(&self) -> &str {
        self.text.get(..self.origin).unwrap_or(&self.text)
    }

    pub fn is_https(&self) -> bool {
        self.text.starts_with("https:")
    }

    fn read(text: &str, allow_insecure_http: bool) -> Result<Self, BaseUrlError> {
        // The parser silently drops tabs and newlines and turns a backslash into a slash.
        if text
            .chars()
            .any(|c| c.is_control() || c.is_whitespace() || c == '\\')
        {
            return Err(BaseUrlError::IllegalCharacter);
        }
        if text.chars().count() > MAX_BASE_URL {
            return Err(BaseUrlError::TooLong);
        }
        let url = Url::parse(text).map_err(BaseUrlError::Parse)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BaseUrlError::NotHttp);
        }
        let host = url.host().ok_or(BaseUrlError::NoHost)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BaseUrlError::UserInfo);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(BaseUrlError::QueryOrFragment);
        }
        let path = url.path().trim_end_matches('/');
        if path.split('/').any(is_ambiguous) {
            return Err(BaseUrlError::AmbiguousPath);
        }
        if url.scheme() == "http" && !allow_insecure_http && !is_loopback(&host) {
            return Err(BaseUrlError::InsecureHttp {
                host: host.to_string(),
            });
        }
        let origin = url.origin().ascii_serialization();
        // An encoded character may take nine bytes, and this text is shown in the status.
        let text = format!("{origin}{path}");
        if text.len() > MAX_BASE_URL {
            return Err(BaseUrlError::TooLong);
        }
        Ok(Self {
            text,
            origin: origin.len(),
        })
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BaseUrl").field(&self.text).finish()
    }
}

/// Some servers decode before they split, some take `..;x` for `..`. The URL parser has resolved plain dot segments.
fn is_ambiguous(segment: &str) -> bool {
    let decoded = percent_decode_str(segment);
    segment.starts_with("..")
        || decoded.clone().ne(segment.bytes())
            && decoded
                .into_iter()
                .any(|byte| matches!(byte, b'/' | b'\\' | b'%') || byte.is_ascii_control())
}

/// The client itself resolves exactly `localhost`. No other name counts: its DNS server decides where it leads.
fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

#[cfg(test)]
mod tests;
