//! The list of all tests: `suite::module::name`, as `cargo test --test suite` lists them. `unit` is the
//! library's own; a binary's are under the binary's name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::files;
use crate::tokens::{self, Placed, Token};

/// The tests of each suite.
pub(crate) static TESTS: LazyLock<BTreeMap<String, BTreeSet<String>>> = LazyLock::new(|| {
    let mut suites = targets(&files::text("Cargo.toml"));
    suites.push(("unit".to_owned(), "src/lib.rs".to_owned()));
    let found = |(name, file): (String, String)| {
        let mut tests = BTreeSet::new();
        collect(&files::root().join(&file), &name, true, &mut tests);
        (name, tests)
    };
    suites.into_iter().map(found).collect()
});

/// Name and root file of every suite and binary of the manifest.
fn targets(manifest: &str) -> Vec<(String, String)> {
    let mut targets = Vec::new();
    for section in manifest
        .split("\n[")
        .filter(|s| s.starts_with("[test]]") || s.starts_with("[bin]]"))
    {
        let value = |key: &str| {
            let line = section
                .lines()
                .find(|l| l.starts_with(&format!("{key} = ")))?;
            line.split('"').nth(1).map(str::to_owned)
        };
        if let (Some(name), Some(path)) = (value("name"), value("path")) {
            targets.push((name, path));
        }
    }
    targets
}

/// Adds the tests of a file, and of the modules that it declares.
fn collect(file: &Path, module: &str, root: bool, tests: &mut BTreeSet<String>) {
    let Ok(source) = std::fs::read_to_string(file) else {
        panic!("{}: declared as {module}, and not there", file.display());
    };
    let items = items(&tokens::read(&source));
    tests.extend(items.tests.iter().map(|t| format!("{module}::{t}")));
    for declared in items.modules {
        let path = module_file(file, root, &declared);
        collect(&path, &format!("{module}::{}", declared.name), false, tests);
    }
}

/// The file of a declared module.
fn module_file(file: &Path, root: bool, module: &Declared) -> PathBuf {
    let folder = file.parent().unwrap();
    if let Some(path) = &module.path {
        return folder.join(path);
    }
    let own = root || file.ends_with("mod.rs");
    let folder = if own {
        folder.to_owned()
    } else {
        file.with_extension("")
    };
    let flat = folder.join(format!("{}.rs", module.name));
    if flat.is_file() {
        flat
    } else {
        folder.join(&module.name).join("mod.rs")
    }
}

/// The content of a file.
#[derive(Debug, Default)]
struct Items {
    tests: Vec<String>,
    modules: Vec<Declared>,
}

/// `mod name;`
#[derive(Debug)]
struct Declared {
    name: String,
    path: Option<String>,
}

fn items(tokens: &[Placed]) -> Items {
    let tokens: Vec<&Token> = tokens.iter().map(|(_, token)| token).collect();
    let mut items = Items::default();
    // The open modules, and the depth of their braces.
    let mut open: Vec<(String, usize)> = Vec::new();
    let mut depth = 0;
    let mut attributes: Vec<&Token> = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let name = tokens.get(at + 1).and_then(|t| t.word());
        if token.is('#') && tokens.get(at + 1).is_some_and(|t| t.is('[')) {
            let end = attribute_end(&tokens, at + 1);
            attributes.extend(tokens.get(at..end).unwrap_or_default());
            at = end;
            continue;
        }
        match (token, name) {
            (Token::Mark('{'), _) => depth += 1,
            (Token::Mark('}'), _) => {
                depth -= 1;
                open.pop_if(|(_, at)| *at == depth);
                attributes.clear();
            }
            (Token::Mark(';'), _) => attributes.clear(),
            (Token::Word(word), Some(name)) if word == "fn" => {
                let path = open.iter().map(|(m, _)| m.as_str()).chain([name]);
                if attributes
                    .iter()
                    .any(|t| t.is_word("test") || t.is_word("rstest"))
                {
                    items.tests.push(path.collect::<Vec<_>>().join("::"));
                }
                attributes.clear();
            }
            (Token::Word(word), Some(name)) if word == "mod" => {
                if tokens.get(at + 2).is_some_and(|t| t.is('{')) {
                    open.push((name.to_owned(), depth));
                } else {
                    let path = attributes.windows(3).find_map(|t| match t {
                        [word, equals, Token::Text(text)]
                            if word.is_word("path") && equals.is('=') =>
                        {
                            Some(text.clone())
                        }
                        _ => None,
                    });
                    items.modules.push(Declared {
                        name: name.to_owned(),
                        path,
                    });
                }
                attributes.clear();
            }
            _ => {}
        }
        at += 1;
    }
    items
}

fn attribute_end(tokens: &[&Token], mut at: usize) -> usize {
    let mut depth = 0;
    while let Some(token) = tokens.get(at) {
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
fn tests_are_told_from_helpers_in_modules_and_macros() {
    let source = r#"
        #[allow(x, reason = "y")] #[path = "../other.rs"] mod other; mod plain;
        fn helper() {}
        #[test] #[ignore = "x"] fn first() {}
        #[cfg(test)] mod tests { fn no() {} #[tokio::test(flavor = "multi_thread")] async fn second() {} }
        proptest! { #[test] fn third(a in 0..3) {} }
        #[rstest] #[case(1)] fn fourth(#[case] n: u8) {}
    "#;
    let items = items(&tokens::read(source));
    assert_eq!(items.tests, ["first", "tests::second", "third", "fourth"]);
    let modules: Vec<_> = items
        .modules
        .iter()
        .map(|m| (m.name.as_str(), m.path.as_deref()))
        .collect();
    assert_eq!(modules, [("other", Some("../other.rs")), ("plain", None)]);
}

#[test]
fn every_suite_of_the_manifest_is_found_with_its_tests() {
    for suite in [
        "crds",
        "cluster",
        "service",
        "integration",
        "reference-service",
        "unit",
        "project",
    ] {
        let tests = TESTS
            .get(suite)
            .unwrap_or_else(|| panic!("no suite {suite}"));
        assert!(!tests.is_empty(), "{suite} has no test");
    }
    let own = "project::suites::every_suite_of_the_manifest_is_found_with_its_tests";
    assert!(TESTS["project"].contains(own));
}
