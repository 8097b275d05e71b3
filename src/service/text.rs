//! Makes texts of the service fit to be shown: bounded, on one line, and without the secrets that it echoes (rule 7).
//! Each passes the client's [`Redactor`] before it is cut: half a token would not be found. A client's latest eight
//! tokens are found: plain, percent-encoded, as in JSON, and in base64 (both alphabets, any position). Not found: a
//! part of one, another encoding, and the tokens of a previous client, from before a start or with another CA.

use std::borrow::Cow;
use std::error::Error;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::utf8_percent_encode;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};

use crate::api::contract::Contract;
use crate::util::{chained, lock};

use super::identity::{Token, UNRESERVED, visible_ascii};

/// Number of tokens searched for. With a rotation every hour this covers a working day.
const REMEMBERED: usize = 8;
/// A shorter token, which protects nothing, would be found in innocent words, and in runIds, which were then unusable.
const FINDABLE_BYTES: usize = 8;
/// Minimum bytes of a provider's key after its prefix; the shortest known has 16.
const PROVIDER_KEY_BYTES: usize = 16;
const REDACTED: &str = "[redacted]";

/// One per client: else whoever writes one namespace's Secret could remove a word from every other's answers.
pub(super) struct Redactor {
    contract: Arc<Contract>,
    known: Mutex<Arc<Known>>,
}

#[derive(Default)]
struct Known {
    /// The latest first.
    tokens: Vec<Token>,
    /// Every form of every token, the longest first: one that begins with another is removed completely.
    forms: Vec<SecretString>,
}

impl Redactor {
    pub(super) fn new(contract: Arc<Contract>) -> Self {
        Self {
            contract,
            known: Mutex::default(),
        }
    }

    pub(super) fn remember(&self, token: &Token) {
        let mut known = lock(&self.known);
        if known.tokens.first() == Some(token) {
            return;
        }
        let before = known.tokens.iter().filter(|t| *t != token).cloned();
        let tokens: Vec<Token> = std::iter::once(token.clone())
            .chain(before)
            .take(REMEMBERED)
            .collect();
        let findable = tokens
            .iter()
            .map(Token::exposed)
            .filter(|token| token.len() >= FINDABLE_BYTES);
        let mut forms: Vec<SecretString> = findable.flat_map(forms).collect();
        forms.sort_by_key(|form| std::cmp::Reverse(form.expose_secret().len()));
        *known = Arc::new(Known { tokens, forms });
    }

    /// Whether an identifier repeats a token. It can't be changed like a text: it is dropped or refused.
    pub(super) fn is_in(&self, text: &str) -> bool {
        let known = self.known();
        let mut forms = known.forms.iter();
        forms.any(|form| text.contains(form.expose_secret()))
    }

    pub(super) fn text(&self, text: &str) -> String {
        let mut text = self.without_provider_keys(text);
        for form in &self.known().forms {
            if text.contains(form.expose_secret()) {
                text = text.replace(form.expose_secret(), REDACTED);
            }
        }
        text
    }

    /// Cloned, so that the lock is not kept while long texts are searched.
    fn known(&self) -> Arc<Known> {
        Arc::clone(&lock(&self.known))
    }

    /// A word that begins with a prefix of the contract file and goes on for 16 characters or more, a digit among them.
    fn without_provider_keys(&self, text: &str) -> String {
        let prefixes = self.contract.provider_key_prefixes();
        let mut kept = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(is_key_char) {
            let (before, from) = rest.split_at(start);
            let (word, after) = from.split_at(from.find(|c| !is_key_char(c)).unwrap_or(from.len()));
            let tail = prefixes.iter().find_map(|p| word.strip_prefix(p.as_str()));
            let is_key = tail.is_some_and(|tail| {
                tail.len() >= PROVIDER_KEY_BYTES && tail.bytes().any(|b| b.is_ascii_digit())
            });
            kept.push_str(before);
            kept.push_str(if is_key { REDACTED } else { word });
            rest = after;
        }
        kept.push_str(rest);
        kept
    }
}

fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

fn forms(token: &str) -> Vec<SecretString> {
    let escaped = token.replace('\\', "\\\\").replace('"', "\\\"");
    let encoded = || utf8_percent_encode(token, UNRESERVED);
    let in_lower_case = |part: &str| match part.strip_prefix('%') {
        Some(digits) => format!("%{}", digits.to_lowercase()),
        None => part.to_owned(),
    };
    let mut forms: Vec<Zeroizing<String>> = [
        token.to_owned(),
        encoded().collect(),
        encoded().map(in_lower_case).collect(),
        // Some serializers escape the slash as well.
        escaped.replace('/', "\\/"),
        escaped,
    ]
    .into_iter()
    .map(Zeroizing::new)
    .collect();
    for offset in 0..3 {
        forms.extend(base64_within(token, offset));
    }
    forms
        .iter()
        .map(|form| SecretString::from(form.as_str()))
        .collect()
}

/// The characters of base64, in both alphabets, that encode only bytes of the token, if it begins at a byte whose
/// number leaves `offset` when divided by three.
fn base64_within(token: &str, offset: usize) -> [Zeroizing<String>; 2] {
    let mut bytes = Zeroizing::new(vec![0; offset]);
    bytes.extend_from_slice(token.as_bytes());
    // Six bits a character: characters that also encode bytes before or after the token are left out.
    let whole = (offset * 8).div_ceil(6)..bytes.len() * 8 / 6;
    let within = |text: String| {
        let text = Zeroizing::new(text);
        Zeroizing::new(text[whole.clone()].to_owned())
    };
    [
        within(STANDARD_NO_PAD.encode(&*bytes)),
        within(URL_SAFE_NO_PAD.encode(&*bytes)),
    ]
}

pub(super) const MESSAGE_BYTES: usize = 512;
/// Maximum characters of a request id; a longer one is dropped.
const REQUEST_ID_BYTES: usize = 128;

/// One line of at most `max` bytes: control characters become spaces, and an ellipsis stands for what was cut.
pub(super) fn one_line(text: &str, max: usize) -> String {
    // Cutting the input first keeps the work bounded whatever was sent.
    let text: String = text
        .chars()
        .take(max + 1)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let text = text.trim();
    if text.len() <= max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(max.saturating_sub('…'.len_utf8()));
    format!("{}…", &text[..end])
}

pub(super) type Cause<'a> = Option<&'a (dyn Error + 'static)>;

pub(super) fn message(text: impl Into<String>, cause: Cause<'_>) -> String {
    one_line(&chained(text.into(), cause), MESSAGE_BYTES)
}

/// A request id fit to be shown and logged (rule 11).
pub(super) fn request_id(bytes: &[u8]) -> Option<String> {
    visible_ascii(bytes, REQUEST_ID_BYTES).map(str::to_owned)
}

/// The text of a body, whatever charset its header names: JSON is UTF-8.
pub(super) fn lossy(body: &[u8]) -> Cow<'_, str> {
    let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
    String::from_utf8_lossy(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const TOKEN: &str = r#"canary/7f"3a\+token="#;

    fn redactor(tokens: &[&str]) -> Redactor {
        let contract = Contract::builtin().unwrap();
        let redactor = Redactor::new(Arc::new(contract.clone()));
        for token in tokens {
            redactor.remember(&Token::parse(token.as_bytes(), &contract).unwrap());
        }
        redactor
    }

    /// Proves: X-canary
    #[rstest]
    #[case::plain(TOKEN, "[redacted]")]
    #[case::in_a_word(&format!("x{TOKEN}y"), "x[redacted]y")]
    #[case::twice(&format!("{TOKEN}{TOKEN} {TOKEN}"), "[redacted][redacted] [redacted]")]
    #[case::percent_encoded("a=canary%2F7f%223a%5C%2Btoken%3D&b", "a=[redacted]&b")]
    #[case::percent_encoded_in_lower_case("canary%2f7f%223a%5c%2btoken%3d", "[redacted]")]
    #[case::in_json(r#"{"a":"canary/7f\"3a\\+token="}"#, r#"{"a":"[redacted]"}"#)]
    #[case::in_json_with_escaped_slashes(r#""canary\/7f\"3a\\+token=""#, r#""[redacted]""#)]
    fn a_token_is_taken_out_however_it_stands_in_a_text(#[case] said: &str, #[case] shown: &str) {
        assert_eq!(redactor(&[TOKEN]).text(said), shown);
        assert!(redactor(&[TOKEN]).is_in(said));
    }

    /// Proves: X-canary
    #[rstest]
    #[case("")]
    #[case("B")]
    #[case("Be")]
    #[case("Bearer ")]
    #[case("Authorization: Bearer ")]
    fn a_token_in_base64_is_taken_out_wherever_it_begins(#[case] before: &str) {
        // Of the second one the two alphabets differ.
        let tokens = [TOKEN, "canary~~~???>>>-token"];
        let redactor = redactor(&tokens);
        let afters = ["", "!", "??", ">>>"];
        for (token, after) in tokens.iter().flat_map(|t| afters.map(|a| (t, a))) {
            let said = format!("{before}{token}{after}");
            for code in [STANDARD_NO_PAD.encode(&said), URL_SAFE_NO_PAD.encode(&said)] {
                let shown = redactor.text(&format!("got {code}"));
                // At both ends a character may be left that the token shares with its neighbour.
                let kept = shown.len() - "got [redacted]".len();
                let beside = |text: &str| (text.len() * 4).div_ceil(3);
                assert!(shown.contains(REDACTED), "{shown}");
                assert!(kept <= beside(before) + beside(after) + 1, "{shown}");
            }
        }
    }

    /// Proves: X-canary
    #[test]
    fn the_latest_eight_tokens_are_looked_for() {
        let tokens: Vec<String> = (0..10).map(|n| format!("canary-number-{n}")).collect();
        let all: Vec<&str> = tokens.iter().map(String::as_str).collect();
        let redactor = redactor(&all);
        for (n, token) in tokens.iter().enumerate() {
            assert_eq!(redactor.is_in(token), n >= 2, "{token}");
        }
        // A token that is used again becomes the latest.
        let contract = Contract::builtin().unwrap();
        for token in [&tokens[2], &tokens[0]] {
            redactor.remember(&Token::parse(token.as_bytes(), &contract).unwrap());
        }
        assert!(redactor.is_in(&tokens[2]) && redactor.is_in(&tokens[0]));
        assert!(!redactor.is_in(&tokens[3]));
    }

    #[test]
    fn a_token_that_begins_with_another_is_taken_out_whole() {
        let redactor = redactor(&["canary-1", "canary-1-and-more"]);
        assert_eq!(redactor.text("is canary-1-and-more"), "is [redacted]");
    }

    #[test]
    fn a_token_that_is_a_short_word_redacts_nothing() {
        let redactor = redactor(&["run"]);
        assert!(!redactor.is_in("run-1"));
        assert_eq!(redactor.text("run-1"), "run-1");
    }

    /// Proves: R7
    #[rstest]
    #[case("key sk-proj-0a1b2c3d4e5f6g7h8", "key [redacted]")]
    #[case(
        r#"{"key":"AIzaSyA1234567890_bcdefghijklmnop"}"#,
        r#"{"key":"[redacted]"}"#
    )]
    #[case("AKIAIOSFODNN7EXAMPLE!", "[redacted]!")]
    #[case("sk-short1", "sk-short1")]
    #[case("sk-learn-without-any-figure", "sk-learn-without-any-figure")]
    #[case("task-0123456789abcdef012345", "task-0123456789abcdef012345")]
    #[case("tâsk-0123456789abcdef012345…", "tâ[redacted]…")]
    #[case("", "")]
    fn what_looks_like_a_provider_s_key_is_taken_out_of_texts(
        #[case] said: &str,
        #[case] shown: &str,
    ) {
        let redactor = redactor(&[]);
        assert_eq!(redactor.text(said), shown);
        assert!(!redactor.is_in(said), "an identifier may look like one");
    }

    #[test]
    fn a_cut_text_shows_it_and_stays_within_its_bytes_and_within_its_characters() {
        for max in 3..20 {
            let text = one_line("aäöü€𝄞bcdefghijk", max);
            assert!(text.len() <= max, "{text:?} is longer than {max}");
            assert!(text.ends_with('…') || text.ends_with('k'));
        }
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abc…");
    }

    #[test]
    fn control_characters_never_reach_a_log_line() {
        assert_eq!(one_line("a\r\nb\u{1b}[31m\u{85}\0", 64), "a  b [31m");
    }

    /// Proves: R11, X-token
    #[test]
    fn a_request_id_that_could_forge_a_log_line_is_dropped() {
        let most = [b'a'; 129];
        for dropped in [b"", &b"a b"[..], b"a\nb", "ä".as_bytes(), &most] {
            assert_eq!(request_id(dropped), None);
        }
        assert!(request_id(&[b'a'; 128]).is_some());
    }
}
