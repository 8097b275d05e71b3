//! Which tests there are: `suite::module::name`, as `cargo test --test suite` lists them. `unit` is the
//! operator's own library; those of another library or of a binary are under its name.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;

use super::files;
use super::tokens::{self, Placed, Token};

/// A test function. One in a file that two suites include is two tests.
#[derive(Debug)]
pub struct Test {
    /// `suite::module::name`.
    pub name: String,
    /// Its file, from the root of the repository.
    pub file: String,
    /// The line of its first attribute or doc comment.
    pub first: usize,
    /// The line of its `fn`.
    pub line: usize,
}

/// The tests of every suite.
pub static TESTS: LazyLock<Vec<Test>> = LazyLock::new(|| {
    let mut tests = Vec::new();
    for (name, file) in targets() {
        collect(&file, &name, true, &mut tests);
    }
    tests
});

/// What Cargo knows of the workspace.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
    test: bool,
}

/// Name and root file of everything in the workspace that can have tests.
fn targets() -> Vec<(String, PathBuf)> {
    let listed = crate::cargo()
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(crate::root())
        .output()
        .unwrap();
    let metadata: Metadata = serde_json::from_slice(&listed.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&listed.stderr)));
    let mut targets = Vec::new();
    for package in metadata.packages {
        for target in package.targets.into_iter().filter(|target| target.test) {
            let library = target.kind.iter().any(|kind| kind == "lib");
            let name = match package.name.as_str() {
                "run-operator" if library => "unit",
                name if library => name,
                _ => target.name.as_str(),
            };
            let file = target.src_path.strip_prefix(crate::root()).unwrap();
            targets.push((name.to_owned(), file.to_owned()));
        }
    }
    targets
}

/// Adds the tests of a file, and of the modules that it declares.
fn collect(file: &Path, module: &str, root: bool, tests: &mut Vec<Test>) {
    let Ok(source) = std::fs::read_to_string(crate::root().join(file)) else {
        panic!("{}: declared as {module}, and not there", file.display());
    };
    let items = items(&tokens::read(&source));
    tests.extend(items.tests.into_iter().map(|found| Test {
        name: format!("{module}::{}", found.path),
        file: file.to_string_lossy().into_owned(),
        first: found.first,
        line: found.line,
    }));
    for declared in items.modules {
        let path = files::tidy(&module_file(file, root, &declared));
        collect(&path, &format!("{module}::{}", declared.name), false, tests);
    }
}

/// Where a declared module stands.
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
    if crate::root().join(&flat).is_file() {
        flat
    } else {
        folder.join(&module.name).join("mod.rs")
    }
}

/// What a file holds.
#[derive(Debug, Default)]
struct Items {
    tests: Vec<Found>,
    modules: Vec<Declared>,
}

/// A test function, by its path in the file and the lines of its first attribute and its `fn`.
#[derive(Debug)]
struct Found {
    path: String,
    first: usize,
    line: usize,
}

/// `mod name;`
#[derive(Debug)]
struct Declared {
    name: String,
    path: Option<String>,
}

fn items(tokens: &[Placed]) -> Items {
    let mut items = Items::default();
    // The modules that are open, and how deep their braces stand.
    let mut open: Vec<(&str, usize)> = Vec::new();
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
                open.pop_if(|(_, at)| *at == depth);
            }
            (Token::Mark(';'), _) => {}
            (Token::Word(word), Some(name)) if word == "fn" => {
                if attributes.iter().any(|a| makes_a_test(a)) {
                    let path: Vec<&str> = open.iter().map(|(m, _)| *m).chain([name]).collect();
                    items.tests.push(Found {
                        path: path.join("::"),
                        first: attributes[0][0].0,
                        line: *line,
                    });
                }
            }
            (Token::Word(word), Some(name)) if word == "mod" => {
                if tokens.get(at + 2).is_some_and(|(_, t)| t.is('{')) {
                    open.push((name, depth));
                } else {
                    items.modules.push(Declared {
                        name: name.to_owned(),
                        path: attributes.iter().find_map(|a| path_of(a)),
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
    "#;
    let items = items(&tokens::read(source));
    let tests = items.tests.iter();
    let tests: Vec<_> = tests.map(|t| (t.path.as_str(), t.first, t.line)).collect();
    let wanted = [
        ("first", 5, 5),
        ("tests::second", 6, 6),
        ("third", 8, 10),
        ("fourth", 12, 12),
    ];
    assert_eq!(tests, wanted);
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
        "client",
        "e2e",
        "reference-service",
        "unit",
        "project",
    ] {
        let start = format!("{suite}::");
        let found = TESTS.iter().any(|test| test.name.starts_with(&start));
        assert!(found, "{suite} has no test");
    }
    let own = "test-support::source::suites::every_suite_of_the_manifest_is_found_with_its_tests";
    let own = TESTS.iter().find(|test| test.name == own);
    assert_eq!(own.unwrap().file, "tests/support/src/source/suites.rs");
}
