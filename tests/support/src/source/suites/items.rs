//! The tests and the modules of a Rust file, read from its tokens.

use crate::source::tokens::{Placed, Token};

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) tests: Vec<Found>,
    pub(super) modules: Vec<Declared>,
}

/// A test function, by its path in the file and the lines of its first attribute and its `fn`.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: String,
    pub(super) first: usize,
    pub(super) line: usize,
    pub(super) ignored: bool,
    pub(super) random: bool,
    /// Without which it is not compiled.
    pub(super) feature: Option<String>,
}

/// `mod name;`
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) path: Option<String>,
    /// Without which it is not compiled.
    pub(super) feature: Option<String>,
}

/// A module with its block.
struct Open<'a> {
    name: &'a str,
    /// How deep its brace stands.
    depth: usize,
    feature: Option<String>,
}

pub(super) fn items(tokens: &[Placed]) -> Items {
    let mut items = Items::default();
    let mut open: Vec<Open> = Vec::new();
    let mut depth = 0;
    // Those of the next item.
    let mut attributes: Vec<&[Placed]> = Vec::new();
    let mut at = 0;
    while let Some((line, token)) = tokens.get(at) {
        let next = tokens.get(at + 1).map(|(_, token)| token);
        if token.is('#') && next.is_some_and(|t| t.is('[')) {
            let end = attribute_end(tokens, at + 1);
            attributes.extend(tokens.get(at..end));
            at = end;
            continue;
        }
        let name = next.and_then(Token::word);
        let mut ends = true;
        match (token, name) {
            (Token::Mark('{'), _) => depth += 1,
            (Token::Mark('}'), _) => {
                depth -= 1;
                open.pop_if(|module| module.depth == depth);
            }
            (Token::Mark(';'), _) => {}
            (Token::Word(word), Some(name)) if word == "fn" => {
                if attributes.iter().any(|a| makes_a_test(a)) {
                    let path: Vec<&str> = open.iter().map(|m| m.name).chain([name]).collect();
                    items.tests.push(Found {
                        path: path.join("::"),
                        first: attributes[0][0].0,
                        line: *line,
                        random: takes_random(tokens, at + 2),
                        ignored: attributes.iter().any(|a| a[2].1.is_word("ignore")),
                        feature: needed(&attributes, &open),
                    });
                }
            }
            (Token::Word(word), Some(name)) if word == "mod" => {
                let feature = needed(&attributes, &open);
                if tokens.get(at + 2).is_some_and(|(_, t)| t.is('{')) {
                    open.push(Open {
                        name,
                        depth,
                        feature,
                    });
                } else {
                    items.modules.push(Declared {
                        name: name.to_owned(),
                        path: attributes.iter().find_map(|a| path_of(a)),
                        feature,
                    });
                }
            }
            _ => ends = false,
        }
        if ends {
            attributes.clear();
        }
        at += 1;
    }
    items
}

/// Whether an attribute is `#[test]`, `#[tokio::test(…)]` or `#[rstest]`.
fn makes_a_test(attribute: &[Placed]) -> bool {
    let path = attribute.iter().map(|(_, token)| token).skip(2);
    let path = path.take_while(|token| token.word().is_some() || token.is(':'));
    path.last()
        .is_some_and(|name| name.is_word("test") || name.is_word("rstest"))
}

/// Whether the parameters that begin here come from proptest: `(number in 0..3)`.
fn takes_random(tokens: &[Placed], at: usize) -> bool {
    let parameters = tokens.iter().skip(at).map(|(_, token)| token);
    let mut parameters = parameters.take_while(|token| !token.is('{'));
    parameters.any(|token| token.is_word("in"))
}

/// The file of `#[path = "file"]`.
fn path_of(attribute: &[Placed]) -> Option<String> {
    match attribute {
        [_, _, (_, word), (_, equals), (_, Token::Text(file)), ..]
            if word.is_word("path") && equals.is('=') =>
        {
            Some(file.clone())
        }
        _ => None,
    }
}

/// The feature of `#[cfg(feature = "name")]` at an item, or at a module around it.
fn needed(attributes: &[&[Placed]], around: &[Open]) -> Option<String> {
    let own = attributes.iter().find_map(|attribute| {
        let [
            _,
            _,
            (_, cfg),
            _,
            (_, feature),
            (_, equals),
            (_, Token::Text(name)),
            ..,
        ] = attribute
        else {
            return None;
        };
        let is_it = cfg.is_word("cfg") && feature.is_word("feature") && equals.is('=');
        is_it.then(|| name.clone())
    });
    own.or_else(|| around.last()?.feature.clone())
}

fn attribute_end(tokens: &[Placed], mut at: usize) -> usize {
    let mut depth = 0;
    while let Some((_, token)) = tokens.get(at) {
        at += 1;
        if token.is('[') {
            depth += 1;
        } else if token.is(']') {
            depth -= 1;
            if depth == 0 {
                break;
            }
        }
    }
    at
}

#[test]
fn tests_are_distinguished_from_helpers_and_macros() {
    let source = r#"
        #[allow(x, reason = "y")] #[path = "../other.rs"] mod other; mod plain;
        fn helper() {}
        #[cfg(test)] fn helper_of_tests() {}
        #[test] #[ignore = "x"] fn first() {}
        #[cfg(test)] mod tests { fn no() {} #[tokio::test(flavor = "multi_thread")] async fn second() {} }
        #[cfg(unix)] proptest! {
            /// Documented.
            #[test]
            fn third(a in 0..3) {}
        }
        #[rstest] #[case(1)] fn fourth(#[case] n: u8) {}
        #[cfg(feature = "proofs")] mod far;
        #[cfg(feature = "proofs")] mod near { mod inner { #[test] fn fifth() {} } }
        #[cfg(feature = "proofs")] #[test] fn sixth() {}
    "#;
    let items = items(&crate::source::tokens::read(source));
    let tests = items.tests.iter();
    let tests: Vec<_> = tests.map(|t| (t.path.as_str(), t.first, t.line)).collect();
    let wanted = [
        ("first", 5, 5),
        ("tests::second", 6, 6),
        ("third", 8, 10),
        ("fourth", 12, 12),
        ("near::inner::fifth", 14, 14),
        ("sixth", 15, 15),
    ];
    assert_eq!(tests, wanted);
    let of = |wanted: fn(&&Found) -> bool| {
        let found = items.tests.iter().filter(wanted);
        found.map(|test| test.path.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(of(|test| test.ignored), ["first"]);
    assert_eq!(of(|test| test.random), ["third"]);
    assert_eq!(
        of(|test| test.feature.is_some()),
        ["near::inner::fifth", "sixth"]
    );
    let modules: Vec<_> = items
        .modules
        .iter()
        .map(|m| (m.name.as_str(), m.path.as_deref(), m.feature.as_deref()))
        .collect();
    let wanted = [
        ("other", Some("../other.rs"), None),
        ("plain", None, None),
        ("far", None, Some("proofs")),
    ];
    assert_eq!(modules, wanted);
}
