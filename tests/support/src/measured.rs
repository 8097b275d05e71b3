//! The code that a figure was measured on, as hashes: those of the figure are compared with those of the checkout, so
//! that no page shows as of today what was measured on other code.
//!
//! Comments, and in `src` the unit tests, count for nothing: a hash is of what is compiled. Dependencies are not in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use sha2::{Digest as _, Sha256};

use crate::root;
use crate::source::files;

/// Hashes by the name of what they are of.
pub type Hashes = BTreeMap<String, String>;

/// A named set of files and folders of the checkout.
type Sources = (&'static str, &'static [&'static str]);

const POLICY: Sources = (
    "policy",
    &["src/api", "src/decide", "contract/profile.yaml"],
);
const CLIENT: Sources = ("client", &["src/service"]);
const CONTROLLER: Sources = (
    "controller",
    &["src/controller", "src/start", "src/clock.rs", "src/points"],
);

/// The sources that the figures of a part depend on; none for an unknown part.
fn sources(part: &str) -> Vec<Sources> {
    const SERVICE: &str = "tests/reference-service/src";
    let tests = |paths| ("tests that measured", paths);
    let all = |paths| vec![POLICY, CLIENT, CONTROLLER, tests(paths)];
    match part {
        "model" | "rules.model" => vec![POLICY, tests(&["tests/model"])],
        "rules.policy" => vec![POLICY, tests(&["tests/policy"])],
        "mutants" => vec![
            POLICY,
            CLIENT,
            tests(&["tests/policy", "tests/client", ".ci/mutants.toml"]),
        ],
        "fuzz" => vec![
            POLICY,
            CLIENT,
            tests(&["fuzz/properties", "fuzz/fuzz_targets"]),
        ],
        // Whatever a statement is about.
        "breakages" => vec![
            (
                "what is shipped",
                &[
                    "src",
                    "contract",
                    "crds",
                    "charts",
                    "deploy",
                    "tools",
                    ".ci",
                    "xtask/src",
                ],
            ),
            tests(&["tests"]),
        ],
        "points" => all(&["tests/chaos/points", SERVICE]),
        "storms" => all(&["tests/chaos/storms", "tests/e2e/support", SERVICE]),
        "soak" => all(&["tests/chaos/soak", "tests/e2e/support", SERVICE]),
        "stale" => all(&["tests/e2e/stale", "tests/e2e/support", SERVICE]),
        part if part.starts_with("leader.") => {
            all(&["tests/e2e/leader", "tests/e2e/support", SERVICE])
        }
        "size" | "throughput" | "latency" | "active" | "finished" | "takeover" => {
            all(&["xtask/src/bench", SERVICE])
        }
        _ => Vec::new(),
    }
}

/// The hashes of what the figures of a part depend on, in this checkout.
///
/// # Panics
/// If the part is unknown, or a file can't be read.
pub fn now(part: &str) -> Hashes {
    let sources = sources(part);
    assert!(
        !sources.is_empty(),
        "tests/support/src/measured.rs doesn't say what the figures of {part} depend on"
    );
    sources
        .into_iter()
        .map(|(name, paths)| (name.to_owned(), hash(paths)))
        .collect()
}

/// What has changed since these hashes were taken. Figures without hashes have changed in everything.
pub fn changed(part: &str, then: &Hashes) -> Vec<String> {
    let now = now(part).into_iter();
    now.filter(|(name, hash)| then.get(name) != Some(hash))
        .map(|(name, _)| name)
        .collect()
}

fn hash(paths: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for file in files::ALL.iter().filter(|file| counts(file, paths)) {
        let content = std::fs::read(root().join(file)).unwrap();
        let content = if Path::new(file).extension().is_some_and(|end| end == "rs") {
            compiled(&String::from_utf8(content).unwrap()).into_bytes()
        } else {
            content
        };
        hasher.update(file.as_bytes());
        hasher.update([0]);
        hasher.update(u64::try_from(content.len()).unwrap().to_be_bytes());
        hasher.update(content);
    }
    let digest = hasher.finalize();
    let bytes: Vec<String> = digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    bytes.concat()
}

/// Whether a file is below one of the paths, and no file of unit tests.
fn counts(file: &str, paths: &[&str]) -> bool {
    let below = |path: &&str| Path::new(file).starts_with(path);
    let unit_tests = file.starts_with("src/")
        && Path::new(file)
            .components()
            .any(|part| part.as_os_str() == "tests.rs" || part.as_os_str() == "tests");
    paths.iter().any(below) && !unit_tests
}

/// The source without comments, docstrings, layout and what only the unit tests compile.
fn compiled(source: &str) -> String {
    let stream = TokenStream::from_str(source).expect("the source can be read");
    let mut text = String::new();
    write(stream, &mut text);
    text
}

fn write(stream: TokenStream, text: &mut String) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        match &tree {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                let mut attribute = String::from("#");
                if let Some(TokenTree::Punct(inner)) = trees.peek() {
                    attribute.push(inner.as_char());
                    trees.next();
                }
                let Some(TokenTree::Group(group)) =
                    trees.next_if(|next| matches!(next, TokenTree::Group(_)))
                else {
                    text.push_str(&attribute);
                    continue;
                };
                let content = group.stream().to_string().replace(char::is_whitespace, "");
                if content == "cfg(test)" {
                    skip_item(&mut trees);
                } else if !content.starts_with("doc=") {
                    text.extend([&attribute, "[", &content, "]\n"]);
                }
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                text.push_str(open);
                write(group.stream(), text);
                text.push_str(close);
            }
            other => {
                text.push_str(&other.to_string());
                text.push('\n');
            }
        }
    }
}

/// Skips what an attribute stands at: up to its block, or to its semicolon.
fn skip_item(trees: &mut impl Iterator<Item = TokenTree>) {
    for tree in trees {
        match tree {
            TokenTree::Punct(mark) if mark.as_char() == ';' => return,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_layout_and_unit_tests_count_for_nothing() {
        let one = "/// Documented.\n#[derive(Debug)]\npub struct A { /** b */ b: u8 } // here\n\
                   #[cfg(test)]\nmod tests { fn t() {} }\n#[cfg(test)] use x::y;\nfn f() -> u8 { 1 }";
        let other = "//! Of this file.\n#[derive(Debug)] pub struct A{b:u8}\nfn f()->u8{1}";
        assert_eq!(compiled(one), compiled(other));
    }

    #[test]
    fn every_other_change_counts() {
        let source = "#[derive(Debug)] fn f(a: u8) -> u8 { a + 1 }";
        for other in [
            "#[derive(Clone)] fn f(a: u8) -> u8 { a + 1 }",
            "#[derive(Debug)] fn f(a: u8) -> u8 { a + 2 }",
            "#[derive(Debug)] fn f(a: u8) -> u8 { a - 1 }",
            "#[derive(Debug)] fn f(a: u8) -> u8 { a + \"1\" }",
            "#[cfg(not(test))] fn f(a: u8) -> u8 { a + 1 }",
        ] {
            assert_ne!(compiled(source), compiled(other), "{other}");
        }
    }

    #[test]
    fn a_figure_of_other_code_is_noticed() {
        let mut then = now("model");
        assert!(changed("model", &then).is_empty());
        then.insert("policy".to_owned(), "0".to_owned());
        assert_eq!(changed("model", &then), ["policy"]);
        assert_eq!(changed("model", &Hashes::new()).len(), 2);
    }

    #[test]
    fn every_source_that_is_named_is_there() {
        let parts = [
            "model",
            "rules.model",
            "rules.policy",
            "mutants",
            "fuzz",
            "points",
            "storms",
            "soak",
            "stale",
            "leader.crash",
            "size",
            "throughput",
            "breakages",
        ];
        for (part, (_, paths)) in parts
            .iter()
            .flat_map(|part| sources(part).into_iter().map(move |source| (part, source)))
        {
            for path in paths {
                let there = files::ALL.iter().any(|file| counts(file, &[path]));
                assert!(there, "{part}: there is no {path}");
            }
        }
    }
}
