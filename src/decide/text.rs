//! Cutting text to a size, so that a status stays small whatever the service sends.

/// Bytes of a condition's message: a sentence or three, and a status of eight conditions stays small.
pub const MAX_SENTENCES: usize = 768;
/// Bytes of an error's message in a status.
pub const MAX_ERROR: usize = 512;

/// Cuts `text` so that it takes at most `max` bytes as JSON (a control character takes six), at a
/// character's boundary.
pub fn cut(text: &str, max: usize) -> &str {
    let mut size = 0;
    for (at, c) in text.char_indices() {
        size += match c {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            c if c.is_control() => 6,
            c => c.len_utf8(),
        };
        if size > max {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}
