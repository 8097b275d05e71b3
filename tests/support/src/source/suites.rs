//! Which tests there are: `suite::module::name`, as `cargo test --test suite` lists them. `unit` is the
//! operator's own library; those of another library or of a binary are under its name.

mod items;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;

use super::files;
use super::tokens;
use items::{Declared, items};

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
    /// `#[ignore]`: another test runs it.
    pub ignored: bool,
    /// Its inputs come from proptest.
    pub random: bool,
    /// The feature without which it is not compiled.
    pub feature: Option<String>,
}

/// What Cargo makes one program of tests of.
#[derive(Debug)]
pub struct Suite {
    /// The beginning of its tests' names.
    pub name: String,
    /// Its root file, from the root of the repository.
    pub file: PathBuf,
    /// How Cargo is told to run it and no other.
    pub arguments: Vec<String>,
    /// The feature without which it is not compiled.
    pub feature: Option<String>,
}

/// Every suite of the workspace.
pub static SUITES: LazyLock<Vec<Suite>> = LazyLock::new(suites);

/// The tests of every suite.
pub static TESTS: LazyLock<Vec<Test>> = LazyLock::new(|| {
    let mut tests = Vec::new();
    for suite in SUITES.iter() {
        let root = Module {
            name: &suite.name,
            file: &suite.file,
            root: true,
            feature: suite.feature.as_deref(),
        };
        collect(&root, &mut tests);
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
    #[serde(default, rename = "required-features")]
    required_features: Vec<String>,
}

/// Everything in the workspace that can have tests.
fn suites() -> Vec<Suite> {
    let metadata: Metadata = serde_json::from_slice(&crate::metadata()).unwrap();
    let mut suites = Vec::new();
    for package in metadata.packages {
        for target in package.targets.into_iter().filter(|target| target.test) {
            suites.push(suite(&package.name, target));
        }
    }
    suites
}

fn suite(package: &str, target: Target) -> Suite {
    let is = |kind: &str| target.kind.iter().any(|own| own == kind);
    let name = match package {
        "run-operator" if is("lib") => "unit",
        package if is("lib") => package,
        _ => target.name.as_str(),
    };
    let kind = if is("lib") {
        vec!["--lib"]
    } else if is("bin") {
        vec!["--bin", target.name.as_str()]
    } else {
        vec!["--test", target.name.as_str()]
    };
    let arguments = ["--package", package].into_iter().chain(kind);
    Suite {
        name: name.to_owned(),
        file: target
            .src_path
            .strip_prefix(crate::root())
            .unwrap()
            .to_owned(),
        arguments: arguments.map(str::to_owned).collect(),
        feature: target.required_features.into_iter().next(),
    }
}

/// A file as a module of a suite.
struct Module<'a> {
    /// `suite::module`.
    name: &'a str,
    file: &'a Path,
    /// Whether it is the suite's first.
    root: bool,
    /// The feature without which it is not compiled.
    feature: Option<&'a str>,
}

/// Adds the tests of a file, and of the modules that it declares.
fn collect(module: &Module, tests: &mut Vec<Test>) {
    let Module { name, file, .. } = module;
    let Ok(source) = std::fs::read_to_string(crate::root().join(file)) else {
        panic!("{}: declared as {name}, and not there", file.display());
    };
    let items = items(&tokens::read(&source));
    let feature = |own: Option<String>| own.or_else(|| module.feature.map(str::to_owned));
    tests.extend(items.tests.into_iter().map(|found| Test {
        name: format!("{name}::{}", found.path),
        file: file.to_string_lossy().into_owned(),
        first: found.first,
        line: found.line,
        ignored: found.ignored,
        random: found.random,
        feature: feature(found.feature),
    }));
    for declared in items.modules {
        let path = files::tidy(&module_file(file, module.root, &declared));
        let needed = feature(declared.feature);
        let inner = Module {
            name: &format!("{name}::{}", declared.name),
            file: &path,
            root: false,
            feature: needed.as_deref(),
        };
        collect(&inner, tests);
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
