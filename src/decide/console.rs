//! Where the console of the service may be. A link in a status is followed by people, and the service's answer must not
//! lead them anywhere.

use url::Url;

use crate::api::limits::MAX_CONSOLE_URL;

use super::truncate::stored_bytes;

/// Characters that RFC 3986 has only percent-encoded, or only in an IPv6 address.
const NEVER: &[u8] = b"\"<>\\^`{|}[]";

/// Origins as browsers compare them: scheme, host, and a port other than 443.
#[derive(Clone, Debug, Default)]
pub struct ConsoleOrigins(Vec<String>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no origin; write https://, a host name and perhaps a port, as in https://console.example.com"
)]
pub struct NoOrigin(String);

impl ConsoleOrigins {
    pub fn parse(origins: &[String]) -> Result<Self, NoOrigin> {
        let origin = |text: &String| {
            let url = https(text).filter(|url| url.path() == "/" && !text.contains('*'));
            let url = url.filter(|url| url.query().is_none() && url.fragment().is_none());
            // Without the text if it may hold a password.
            let quoted = if text.contains('@') { "(hidden)" } else { text };
            url.map(|url| url.origin().ascii_serialization())
                .ok_or_else(|| NoOrigin(quoted.to_owned()))
        };
        origins
            .iter()
            .map(origin)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The address as browsers read it, if it may be shown.
    pub(crate) fn usable(&self, address: &str) -> Option<String> {
        let url = https(address)?;
        let allowed = self.0.contains(&url.origin().ascii_serialization());
        let fits = stored_bytes(url.as_str()) <= MAX_CONSOLE_URL;
        (allowed && fits).then(|| url.into())
    }
}

/// An address by https that everyone reads in the same way, without a user name or password.
pub fn https(address: &str) -> Option<Url> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !NEVER.contains(&byte);
    let host = address.strip_prefix("https://")?;
    if host.starts_with('/') || !address.bytes().all(plain) {
        return None;
    }
    let url = Url::parse(address).ok()?;
    (url.username().is_empty() && url.password().is_none()).then_some(url)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn origins(text: &str) -> Result<ConsoleOrigins, NoOrigin> {
        ConsoleOrigins::parse(&[text.to_owned()])
    }

    /// Proves: P-details
    #[rstest]
    #[case("https://console.example.com/runs/1?a=b#c", true)]
    #[case("https://CONSOLE.example.com:443/", true)]
    #[case("https://console.example.com", true)]
    #[case("https://console.example.com:8443/", false)]
    #[case("https://console.example.com.evil.example/", false)]
    #[case("https://console.example.com@evil.example/", false)]
    #[case("https://me@console.example.com/", false)]
    #[case("https://me:word@console.example.com/", false)]
    #[case("https:///console.example.com/", false)]
    #[case("https:console.example.com", false)]
    #[case("https://evil.example\\@console.example.com/", false)]
    #[case("https://console.example.com/ x", false)]
    #[case("https://console.example.com/\u{202e}", false)]
    #[case("https://console.example.com/[redacted]", false)]
    #[case("https://console.example.com/aaa…", false)]
    #[case("http://console.example.com/", false)]
    #[case("javascript:alert(1)", false)]
    #[case("", false)]
    fn only_a_plain_address_at_an_allowed_origin_is_shown(#[case] text: &str, #[case] is: bool) {
        let origins = origins("https://console.example.com").unwrap();
        assert_eq!(origins.usable(text).is_some(), is);
        assert_eq!(ConsoleOrigins::default().usable(text), None);
    }

    #[test]
    fn an_address_that_is_too_long_is_not_cut() {
        let origins = origins("https://a.example/").unwrap();
        let of = |bytes: usize| format!("https://a.example/{}", "x".repeat(bytes - 18));
        assert_eq!(origins.usable(&of(2048)), Some(of(2048)));
        assert_eq!(origins.usable(&of(2049)), None);
        assert_eq!(origins.usable(&of(2043).replace("xx", "x&")), None);
    }

    #[rstest]
    #[case("console.example.com")]
    #[case("http://console.example.com")]
    #[case("https://console.example.com/runs")]
    #[case("https://console.example.com/?a")]
    #[case("https://me:word@console.example.com")]
    #[case("https://*.example.com")]
    #[case("https://[::1]")]
    fn what_is_no_origin_is_refused(#[case] text: &str) {
        let told = origins(text).unwrap_err().to_string();
        assert!(told.contains("as in https://console.example.com"), "{told}");
        assert!(!told.contains("word"), "{told}");
    }
}
