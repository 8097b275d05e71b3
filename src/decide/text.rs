//! Cutting text to a size, so that a status stays small whatever the service sends.

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
