//! Rust source as a flat list of tokens: enough to see paths and items, with comments gone and texts kept
//! apart, so that a word in a sentence is never taken for code.

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// An identifier or a keyword.
    Word(String),
    /// A string literal's content, escapes as they stand.
    Text(String),
    /// `::`.
    PathSeparator,
    /// Any other character.
    Mark(char),
}

impl Token {
    pub(crate) fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            Self::Text(_) | Self::PathSeparator | Self::Mark(_) => None,
        }
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    pub(crate) fn is(&self, mark: char) -> bool {
        *self == Self::Mark(mark)
    }
}

/// A token and the line that it begins in, from 1.
pub(crate) type Placed = (usize, Token);

/// Reads a source file.
pub(crate) fn read(source: &str) -> Vec<Placed> {
    let mut reader = Reader {
        chars: source.chars().collect(),
        at: 0,
        line: 1,
        tokens: Vec::new(),
    };
    while reader.at < reader.chars.len() {
        reader.step();
    }
    reader.tokens
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    line: usize,
    tokens: Vec<Placed>,
}

impl Reader {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn take(&mut self) -> char {
        let c = self.peek(0);
        if c == '\n' {
            self.line += 1;
        }
        self.at += 1;
        c
    }

    fn step(&mut self) {
        let line = self.line;
        let token = match self.peek(0) {
            '/' if self.peek(1) == '/' => return self.skip_line(),
            '/' if self.peek(1) == '*' => return self.skip_block(),
            '"' => Token::Text(self.text()),
            '\'' => return self.quote(),
            ':' if self.peek(1) == ':' => {
                self.at += 2;
                Token::PathSeparator
            }
            c if c.is_alphabetic() || c == '_' => match self.word() {
                Some(token) => token,
                None => return,
            },
            // A number is one mark: its suffix is no word.
            c if c.is_ascii_digit() => {
                while self.peek(0).is_alphanumeric() || self.peek(0) == '_' {
                    self.take();
                }
                Token::Mark('0')
            }
            _ => {
                let c = self.take();
                if c.is_whitespace() {
                    return;
                }
                Token::Mark(c)
            }
        };
        self.tokens.push((line, token));
    }

    fn skip_line(&mut self) {
        while self.at < self.chars.len() && self.peek(0) != '\n' {
            self.at += 1;
        }
    }

    fn skip_block(&mut self) {
        let mut depth = 0;
        while self.at < self.chars.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.take();
                    continue;
                }
            }
            self.at += 2;
            if depth == 0 {
                return;
            }
        }
    }

    /// An ordinary string; the opening quote is next.
    fn text(&mut self) -> String {
        self.take();
        let mut text = String::new();
        while self.at < self.chars.len() {
            match self.take() {
                '"' => break,
                '\\' => {
                    text.push('\\');
                    text.push(self.take());
                }
                c => text.push(c),
            }
        }
        text
    }

    /// A raw string; the hashes or the opening quote are next.
    fn raw_text(&mut self) -> String {
        let mut hashes = 0;
        while self.peek(0) == '#' {
            hashes += 1;
            self.at += 1;
        }
        self.take();
        let mut text = String::new();
        while self.at < self.chars.len() {
            let c = self.take();
            if c == '"' && (0..hashes).all(|i| self.peek(i) == '#') {
                self.at += hashes;
                break;
            }
            text.push(c);
        }
        text
    }

    /// A character or a lifetime: neither is of interest.
    fn quote(&mut self) {
        self.take();
        if self.peek(0) == '\\' {
            self.at += 2;
            while self.at < self.chars.len() && self.take() != '\'' {}
        } else if self.peek(1) == '\'' {
            self.take();
            self.take();
        }
    }

    /// A word, or the string or byte that it is the prefix of.
    fn word(&mut self) -> Option<Token> {
        let mut word = String::new();
        while self.peek(0).is_alphanumeric() || self.peek(0) == '_' {
            word.push(self.take());
        }
        match (word.as_str(), self.peek(0)) {
            ("b" | "c", '"') => Some(Token::Text(self.text())),
            ("b", '\'') => {
                self.quote();
                None
            }
            ("r" | "br" | "cr", '"') => Some(Token::Text(self.raw_text())),
            ("r" | "br" | "cr", '#') if matches!(self.peek(1), '"' | '#') => {
                Some(Token::Text(self.raw_text()))
            }
            _ => Some(Token::Word(word)),
        }
    }
}

#[test]
fn comments_texts_and_characters_are_no_code() {
    let source = r##"
        // tokio /* here
        /* tokio /* inside */ tokio */
        let a = "tokio \" tokio"; let b = r#"tokio " tokio"#; let c = b"tokio";
        fn d<'tokio>(e: &'tokio str) -> char { '"' } let f = '\''; let g = b'"';
        end();
    "##;
    let tokens = read(source);
    let words: Vec<_> = tokens.iter().filter_map(|(_, t)| t.word()).collect();
    assert!(words.contains(&"end"), "{words:?}");
    assert_eq!(
        words.iter().filter(|w| **w == "tokio").count(),
        2,
        "the lifetimes: {words:?}"
    );
    let end = tokens.iter().find(|(_, t)| t.is_word("end"));
    assert_eq!(end.map(|(line, _)| *line), Some(6));
}
