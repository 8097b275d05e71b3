//! An answer of the service as a fuzzer writes it: `GET 404`, headers, a blank line, the body.

use std::sync::{Arc, LazyLock};

use http::HeaderName;
use reqwest::Response;

use crate::api::Contract;
use crate::service::Token;
use crate::service::send::Head;
use crate::service::text::Redactor;

/// The token in use, which the service may know and repeat; and one from before a rotation, whose forms in JSON,
/// in a URL and in base64 all differ from it.
const TOKENS: [&str; 2] = ["canary/7f\"3a\\+token=", "canary.7f3a-token"];

pub(super) static CONTRACT: LazyLock<Arc<Contract>> =
    LazyLock::new(|| Arc::new(Contract::builtin().unwrap()));
pub(super) static REDACTOR: LazyLock<Arc<Redactor>> = LazyLock::new(|| {
    let redactor = Redactor::new(Arc::clone(&CONTRACT));
    for token in TOKENS {
        redactor.remember(&Token::parse(token.as_bytes(), &CONTRACT).unwrap());
    }
    Arc::new(redactor)
});

/// An answer, and what it answers.
pub(super) struct Said<'a> {
    /// The first word.
    pub(super) to: &'a str,
    status: u16,
    headers: Vec<(HeaderName, &'a [u8])>,
    pub(super) body: &'a [u8],
}

impl<'a> Said<'a> {
    /// `None` where no HTTP library would hand it on.
    pub(super) fn read(input: &'a [u8]) -> Option<Self> {
        let (first, mut rest) = line(input)?;
        let (to, status) = std::str::from_utf8(first).ok()?.split_once(' ')?;
        let mut headers = Vec::new();
        loop {
            let (header, behind) = line(rest)?;
            rest = behind;
            if header.is_empty() {
                break;
            }
            let colon = header.iter().position(|b| *b == b':')?;
            let (name, value) = header.split_at(colon);
            headers.push((HeaderName::from_bytes(name).ok()?, value[1..].trim_ascii()));
        }
        Some(Self {
            to,
            status: status.parse().ok()?,
            headers,
            body: rest,
        })
    }

    /// The head as the client reads it; `media_type_too` is put behind the `Content-Type`.
    pub(super) fn head(&self, media_type_too: &str) -> Option<Head> {
        let mut response = http::Response::builder().status(self.status);
        for (name, value) in &self.headers {
            let mut value = value.to_vec();
            if name == http::header::CONTENT_TYPE {
                value.extend_from_slice(media_type_too.as_bytes());
            }
            response = response.header(name, value);
        }
        let response = Response::from(response.body(Vec::new()).ok()?);
        Some(Head::read(&response, &REDACTOR))
    }
}

fn line(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = input.iter().position(|b| *b == b'\n')?;
    Some((&input[..end], &input[end + 1..]))
}

/// Fit to be shown: within `max` bytes, on one line, without a token.
pub(super) fn fit(text: &str, max: usize) {
    assert!(text.len() <= max, "{} bytes of {max}", text.len());
    assert!(!text.chars().any(char::is_control), "{text:?}");
    hides_the_token(text);
}

pub(super) fn hides_the_token(text: &str) {
    assert!(!REDACTOR.is_in(text), "{text:?}");
}

/// A request id that can stand in a log.
pub(super) fn request_id(id: Option<&str>) {
    let Some(id) = id else { return };
    assert!((1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic()));
    hides_the_token(id);
}
