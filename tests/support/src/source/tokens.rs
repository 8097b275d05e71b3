//! Rust source as a flat list of tokens, without comments.

use proc_macro2::{TokenStream, TokenTree};

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// An identifier or a keyword.
    Word(String),
    /// A string literal's content, escapes unchanged.
    Text(String),
    /// Any other character.
    Mark(char),
}

impl Token {
    pub fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            Self::Text(_) | Self::Mark(_) => None,
        }
    }

    pub fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    pub fn is(&self, mark: char) -> bool {
        *self == Self::Mark(mark)
    }
}

/// A token and the line that it begins in, from 1.
pub type Placed = (usize, Token);

/// Reads a source file.
///
/// # Panics
/// If it is no Rust.
pub fn read(source: &str) -> Vec<Placed> {
    let stream: TokenStream = source.parse().expect("the source can be read");
    let mut tokens = Vec::new();
    flatten(stream, &mut tokens);
    tokens
}

/// The tokens of a stream, those of its groups between their brackets.
pub fn flatten(stream: TokenStream, tokens: &mut Vec<Placed>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Ident(word) => tokens.push((line, Token::Word(word.to_string()))),
            TokenTree::Punct(mark) => tokens.push((line, Token::Mark(mark.as_char()))),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let quoted = text.trim_start_matches('r').trim_matches('#');
                let text = quoted.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
                tokens.push((
                    line,
                    text.map_or(Token::Mark('0'), |t| Token::Text(t.to_owned())),
                ));
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    proc_macro2::Delimiter::Parenthesis => ('(', ')'),
                    proc_macro2::Delimiter::Brace => ('{', '}'),
                    proc_macro2::Delimiter::Bracket => ('[', ']'),
                    proc_macro2::Delimiter::None => (' ', ' '),
                };
                tokens.push((line, Token::Mark(open)));
                flatten(group.stream(), tokens);
                tokens.push((line, Token::Mark(close)));
            }
        }
    }
}

#[test]
fn comments_are_dropped_and_texts_are_no_code() {
    let source = "// tokio\nfn f<'a>() { let _ = (\"a::b\", 'x', 1u8, r#\"q\"#); }";
    let words: Vec<_> = read(source)
        .iter()
        .filter_map(|(line, token)| token.word().map(|w| (*line, w.to_owned())))
        .collect();
    assert_eq!(
        words,
        ["fn", "f", "a", "let", "_"].map(|w| (2, w.to_owned()))
    );
    let texts: Vec<_> = read(source)
        .into_iter()
        .filter(|(_, token)| matches!(token, Token::Text(_)))
        .map(|(_, token)| token)
        .collect();
    assert_eq!(texts, ["a::b", "q"].map(|t| Token::Text(t.to_owned())));
}
