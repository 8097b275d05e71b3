//! The version, whose one place is `[workspace.package]` in Cargo.toml.

use crate::files;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What a version of ours follows, after one of the marks.
const NAMES: [&str; 4] = [
    "run-operator",
    "reference-service",
    "kubectl-runs",
    "appVersion",
];
const MARKS: [&str; 7] = [":", "-", "_", "@", " v", ": ", " --version "];
/// What a version of ours follows without such a name, as xtask/src/generate/versions.rs has it.
const NAMELESS: [&str; 7] = [
    "release krew --version ",
    "VERSION=",
    "releases/download/v",
    "refs/tags/v",
    "newTag: ",
    "targetRevision: ",
    "    tag: ",
];
/// About other versions too, or with input that tests make up.
const OTHERS: [&str; 4] = [
    "CHANGELOG.md",
    "docs/upgrade.md",
    "docs/api-versions.md",
    "tests/",
];

/// The version `X.Y.Z` that a text begins with.
fn version(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let numbers = text[..end.unwrap_or(text.len())].trim_end_matches('.');
    let parts: Vec<&str> = numbers.split('.').collect();
    (parts.len() == 3 && parts.iter().all(|part| !part.is_empty())).then_some(numbers)
}

/// The versions of ours in a text, with the line they are in.
fn stated(text: &str) -> Vec<(usize, String)> {
    let named = NAMES
        .iter()
        .flat_map(|name| MARKS.map(|mark| format!("{name}{mark}")));
    let starts: Vec<String> = named.chain(NAMELESS.map(str::to_owned)).collect();
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for start in &starts {
            let after = line.split(start).skip(1);
            found.extend(
                after
                    .filter_map(version)
                    .map(|v| (number + 1, v.to_owned())),
            );
        }
    }
    found
}

/// Whether a line has this version, and not as a part of longer numbers such as an address.
fn names(line: &str, version: &str) -> bool {
    let number = |c: char| c.is_ascii_digit() || c == '.';
    line.match_indices(version).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + version.len()..).unwrap_or_default();
        let after = after.trim_start_matches('.').chars().next();
        !before.is_some_and(number) && !after.is_some_and(|c| c.is_ascii_digit())
    })
}

/// The versions that the changelog has.
fn released() -> Vec<String> {
    let changelog = files::text("CHANGELOG.md");
    let headings = changelog
        .lines()
        .filter_map(|line| line.strip_prefix("## ["));
    let names = headings.filter_map(|rest| rest.split(']').next());
    names
        .filter(|name| version(name).is_some())
        .map(str::to_owned)
        .collect()
}

/// Proves: I-version
#[test]
fn no_file_states_another_version_than_cargo_toml() {
    let core = VERSION.split('-').next().unwrap();
    let earlier = released();
    let mut found = Vec::new();
    let mut right = 0;
    for file in ["md", "yaml", "json", "tpl", "toml"]
        .into_iter()
        .flat_map(files::ending)
    {
        if OTHERS.iter().any(|other| file.starts_with(other)) || file.ends_with("Cargo.toml") {
            continue;
        }
        let text = files::text(file);
        for (line, version) in stated(&text) {
            if version == core {
                right += 1;
            } else {
                found.push(format!("{file}:{line}: {version}"));
            }
        }
        // In whatever words: in documents and manifests, what was a version once is no other number.
        for version in earlier.iter().filter(|version| *version != VERSION) {
            let lines = text
                .lines()
                .enumerate()
                .filter(|(_, line)| names(line, version));
            let ours = file.starts_with("docs/")
                || file.starts_with("deploy/")
                || file.starts_with("charts/");
            found.extend(
                lines
                    .filter(|_| ours)
                    .map(|(n, line)| format!("{file}:{}: {line}", n + 1)),
            );
        }
    }
    assert!(
        found.is_empty(),
        "the version is {VERSION}:\n{}",
        found.join("\n")
    );
    assert!(right > 10, "only {right} places were found");
}

#[test]
fn a_version_is_distinguished_from_an_address() {
    assert!(names("of 0.1.0.", "0.1.0"));
    assert!(names("run-operator-0.1.0.tgz", "0.1.0"));
    assert!(!names("cidr: 10.0.1.0/24", "0.1.0"));
    assert!(!names("10.1.0.1.0.2", "0.1.0"));
}
