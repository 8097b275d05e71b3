//! The paths that a source file names, `use` trees unfolded and `crate`, `super` and `self` resolved.

use crate::tokens::{Placed, Token};

/// A path, its segments, and the line that it stands in.
pub(crate) type Path = (usize, Vec<String>);

/// Every path of a file whose own module is `module`. A path inside the crate begins with `crate`.
pub(crate) fn named(tokens: &[Placed], module: &[String]) -> Vec<Path> {
    let mut reader = Reader {
        tokens,
        at: 0,
        paths: Vec::new(),
    };
    reader.file();
    let resolve = |(line, path): Path| (line, resolved(path, module));
    reader.paths.into_iter().map(resolve).collect()
}

/// `crate`, `super` and `self` at the front, replaced by where they lead.
fn resolved(path: Vec<String>, module: &[String]) -> Vec<String> {
    let mut base = module.to_vec();
    let mut rest = path.as_slice();
    match rest.first().map(String::as_str) {
        Some("self") => rest = rest.get(1..).unwrap_or_default(),
        Some("super") => {
            while let Some(("super", tail)) = rest.split_first().map(|(w, t)| (w.as_str(), t)) {
                base.pop();
                rest = tail;
            }
        }
        _ => return path,
    }
    let inside = base.into_iter().chain(rest.iter().cloned());
    std::iter::once("crate".to_owned()).chain(inside).collect()
}

struct Reader<'a> {
    tokens: &'a [Placed],
    at: usize,
    paths: Vec<Path>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |(line, _)| *line)
    }

    fn next_is(&mut self, expected: &Token) -> bool {
        let found = self.peek() == Some(expected);
        self.at += usize::from(found);
        found
    }

    fn file(&mut self) {
        while let Some(token) = self.peek() {
            if token.is_word("use") {
                self.at += 1;
                self.tree(&[]);
            } else if token.word().is_some() {
                let line = self.line();
                let path = self.segments();
                self.paths.push((line, path));
            } else {
                self.at += 1;
            }
        }
    }

    /// Words joined by `::`; stops in front of `<`, `{` and `*`.
    fn segments(&mut self) -> Vec<String> {
        let mut segments = Vec::new();
        while let Some(word) = self.peek().and_then(Token::word) {
            segments.push(word.to_owned());
            self.at += 1;
            if !self.next_is(&Token::PathSeparator) {
                break;
            }
        }
        segments
    }

    /// One branch of a `use` tree below `prefix`.
    fn tree(&mut self, prefix: &[String]) {
        self.next_is(&Token::PathSeparator);
        let line = self.line();
        let path: Vec<String> = prefix.iter().cloned().chain(self.segments()).collect();
        if self.next_is(&Token::Mark('{')) {
            while self.peek().is_some() && !self.next_is(&Token::Mark('}')) {
                self.tree(&path);
                self.next_is(&Token::Mark(','));
            }
            return;
        }
        self.next_is(&Token::Mark('*'));
        if self.next_is(&Token::Word("as".to_owned())) {
            self.at += 1;
        }
        self.paths.push((line, path));
        if !matches!(self.peek(), Some(Token::Mark(',' | '}' | ';'))) {
            // Not a tree after all, such as `use<'a>` in a bound.
            self.at += 1;
        }
    }
}

#[test]
fn trees_are_unfolded_and_relative_paths_resolved() {
    let source = "use std::{fs, io::{self, Read as R}}; use super::text::*;\n\
                  fn f() { let x = tokio::spawn(self::g()); ::kube::Api::all() }";
    let module = ["service".to_owned(), "sse".to_owned()];
    let paths: Vec<String> = named(&crate::tokens::read(source), &module)
        .into_iter()
        .map(|(line, path)| format!("{line} {}", path.join("::")))
        .collect();
    for expected in [
        "1 std::fs",
        "1 std::io::self",
        "1 std::io::Read",
        "1 crate::service::text",
        "2 tokio::spawn",
        "2 crate::service::sse::g",
        "2 kube::Api::all",
    ] {
        assert!(
            paths.iter().any(|p| p == expected),
            "{expected} in {paths:#?}"
        );
    }
}
