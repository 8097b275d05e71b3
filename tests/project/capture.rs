//! The captures of the demo, docs/demo.txt and the part of it in the README, show what the demo does today.

use test_support::source::tokens::{self, Token};

use crate::files;

const CAPTURE: &str = "docs/demo.txt";

/// The texts of the demo's source that follow this word and at most a number: its steps, its promises.
fn texts_after(word: &str) -> Vec<String> {
    let mut texts = Vec::new();
    for file in files::below("xtask/src/demo", "rs") {
        let text = files::text(&file);
        let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
        let tokens = tokens::read(shipped);
        for (at, (_, token)) in tokens.iter().enumerate() {
            let next = tokens.iter().skip(at + 1).take(4);
            let text = next.into_iter().find_map(|(_, token)| match token {
                Token::Text(text) => Some(text.clone()),
                _ => None,
            });
            texts.extend(text.filter(|_| token.is_word(word)));
        }
    }
    texts
}

#[test]
fn the_capture_has_every_step_and_every_promise_of_the_demo() {
    let capture = files::text(CAPTURE);
    let lines = |holds: fn(&str) -> bool| capture.lines().filter(|line| holds(line)).count();
    let steps = texts_after("step");
    for title in &steps {
        let there = capture
            .lines()
            .any(|line| line.split_once(". ").is_some_and(|(_, rest)| rest == title));
        assert!(there, "{CAPTURE} has no step {title:?}: capture it again");
    }
    let numbered =
        |line: &str| line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(". ");
    assert_eq!(lines(numbered), steps.len(), "steps in {CAPTURE}");
    let promises = texts_after("promise");
    for promise in &promises {
        assert!(
            capture.contains(&format!("   ok      {promise}")),
            "{CAPTURE} has no promise {promise:?}: capture it again"
        );
    }
    let kept = |line: &str| line.starts_with("   ok      ");
    assert_eq!(lines(kept), promises.len(), "promises in {CAPTURE}");
}

#[test]
fn the_readme_shows_parts_of_the_capture() {
    let capture = files::text(CAPTURE);
    let readme = files::text("README.md");
    let (_, shown) = readme
        .split_once("<!-- demo: begin -->\n```console\n")
        .unwrap();
    let (shown, _) = shown.split_once("\n```").unwrap();
    for part in shown.split("\n…\n") {
        assert!(capture.contains(part), "{CAPTURE} has no\n{part}");
    }
}
