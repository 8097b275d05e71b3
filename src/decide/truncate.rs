//! Cuts text to a size, so that a status stays small whatever the service sends.

use std::borrow::Cow;

/// Bytes of a condition's message: up to three sentences, so that a status of ten conditions stays small.
pub const MAX_SENTENCES: usize = 768;
/// Bytes of a quote from the service in a condition's message.
pub(crate) const MAX_QUOTE: usize = 256;
/// Bytes of an error's message in a status.
pub const MAX_ERROR: usize = 512;

/// Cuts `text` at a character boundary so that it takes at most `max` bytes where it is stored.
pub fn cut(text: &str, max: usize) -> &str {
    if text.len() <= max / 6 {
        return text;
    }
    let mut size = 0;
    for (at, c) in text.char_indices() {
        size += stored_len(c);
        if size > max {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}

/// Bytes of `text` as the API server stores it, without its quotation marks: Go writes JSON that may stand in HTML.
pub(crate) fn stored_bytes(text: &str) -> usize {
    text.chars().map(stored_len).sum()
}

fn stored_len(c: char) -> usize {
    match c {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => 6,
        c => json_len(c),
    }
}

fn json_len(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        c if c.is_control() => 6,
        c => c.len_utf8(),
    }
}

/// Whether an identifier is kept. It is compared with what earlier versions stored, so this never changes.
pub(crate) fn fits(text: &str, max: usize) -> bool {
    text.chars().map(json_len).sum::<usize>() <= max
}

/// `text` made safe for a terminal, in at most `max` bytes: characters that would move the cursor, colour the screen or
/// change the direction of writing are replaced by their codes.
pub fn escaped(text: &str, max: usize) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(text.get(..max).unwrap_or(text));
    }
    let mut out = String::new();
    for c in text.chars() {
        let code = hidden(c).then(|| c.escape_unicode().to_string());
        let size = code.as_ref().map_or(c.len_utf8(), String::len);
        if out.len() + size > max {
            break;
        }
        match code {
            Some(code) => out.push_str(&code),
            None => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Control characters, line ends of every kind, and marks of the writing's direction.
fn hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_just_fits_is_whole() {
        assert_eq!(escaped("abc", 3), "abc");
        assert_eq!(escaped("abcd", 3), "abc");
        assert_eq!(escaped("ä\n", 7), "ä\\u{a}");
        assert_eq!(escaped("ä\n", 6), "ä");
        assert_eq!(escaped("ä", 1), "");
    }
}
