//! Checks of the files' text: links lead somewhere, and nothing names the machine they were written on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use test_support::source::suites::{TESTS, Test};

use crate::files;

/// Texts that belong to the machine that a file was written on, put together here so that this file doesn't hold them.
fn banned() -> Vec<String> {
    let mut banned: Vec<String> = [
        ["/wo", "rk/"],
        ["/tmp/", "wt"],
        ["/ro", "ot/"],
        ["/ho", "me/"],
        ["/Us", "ers/"],
    ]
    .iter()
    .map(|parts| parts.concat())
    .collect();
    banned.extend(registries());
    banned
}

/// Hosts of package registries that this machine is set up with; the public ones may be named.
fn registries() -> Vec<String> {
    let configs = [
        std::env::var_os("CARGO_HOME").map(PathBuf::from),
        home(".cargo"),
    ];
    let mut texts: Vec<String> = configs
        .into_iter()
        .flatten()
        .filter_map(|folder| std::fs::read_to_string(folder.join("config.toml")).ok())
        .collect();
    let variables = [
        "GOPROXY",
        "CARGO_REGISTRIES_CRATES_IO_INDEX",
        "PIP_INDEX_URL",
    ];
    texts.extend(variables.iter().filter_map(|v| std::env::var(v).ok()));
    let hosts = texts
        .iter()
        .flat_map(|text| hosts(text))
        .collect::<BTreeSet<_>>();
    let public = [
        "crates.io",
        "github.com",
        "golang.org",
        "pypi.org",
        "static.crates.io",
    ];
    hosts
        .into_iter()
        .filter(|host| !public.iter().any(|p| host.ends_with(p)))
        .collect()
}

fn home(folder: &str) -> Option<PathBuf> {
    std::env::var_os("HOME").map(|home| Path::new(&home).join(folder))
}

/// The hosts of the URLs in a text; loopback, which anybody's tests name, is none.
fn hosts(text: &str) -> Vec<String> {
    let starts = text.split("://").skip(1);
    starts
        .map(|rest| {
            rest.split(['/', '"', ',', ' ', '\n', '|'])
                .next()
                .unwrap_or_default()
        })
        .map(|host| host.rsplit('@').next().unwrap_or(host))
        .filter(|host| {
            host.contains('.') && !host.starts_with("127.") && !host.starts_with("localhost")
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn no_file_names_the_machine_that_it_was_written_on() {
    let banned = banned();
    let mut found = Vec::new();
    for file in files::ALL.iter() {
        // What is no text holds no names.
        let Ok(text) = std::fs::read_to_string(test_support::root().join(file)) else {
            continue;
        };
        for (line, content) in text.lines().enumerate() {
            found.extend(
                banned
                    .iter()
                    .filter(|b| content.contains(b.as_str()))
                    .map(|b| format!("{file}:{}: {b}", line + 1)),
            );
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_dependency_is_from_the_public_registry() {
    let lock = files::text("Cargo.lock");
    let others: Vec<&str> = lock
        .lines()
        .filter(|l| {
            l.starts_with("source = ") && !l.contains("github.com/rust-lang/crates.io-index")
        })
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

/// A heading as a link names it: lower case, spaces as hyphens, other marks removed.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// A document without its blocks of code.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect::<Vec<_>>().join("\n")
}

/// The places of a document that a link may lead to.
fn anchors(text: &str) -> Vec<String> {
    let text = prose(text);
    let headings = text.lines().filter(|l| l.starts_with('#')).map(anchor);
    let marks = text
        .split("<a id=\"")
        .skip(1)
        .filter_map(|r| r.split_once('"'))
        .map(|(id, _)| id.to_owned());
    headings.chain(marks).collect()
}

/// The targets of the links in a document, blocks of code left out.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let targets = prose
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut broken = Vec::new();
    for file in files::ending("md") {
        let folder = Path::new(file).parent().unwrap();
        for link in links(&files::text(file)) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, place) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() {
                PathBuf::from(file)
            } else {
                files::tidy(&folder.join(path))
            };
            if !test_support::root().join(&target).exists() {
                broken.push(format!("{file}: {link}: there is no {}", target.display()));
            } else if !place.is_empty()
                && !anchors(&files::text(&target.to_string_lossy()))
                    .iter()
                    .any(|found| found == place)
            {
                broken.push(format!(
                    "{file}: {link}: {} has no such place",
                    target.display()
                ));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_document_is_a_chapter_of_the_book() {
    let summary = "docs/SUMMARY.md";
    let chapters = links(&files::text(summary));
    for file in files::ending("md") {
        let Some(name) = file.strip_prefix("docs/").filter(|_| file != summary) else {
            continue;
        };
        let listed = chapters.iter().filter(|chapter| *chapter == name).count();
        assert_eq!(listed, 1, "{summary} and {file}");
    }
}

/// A link leads to the first of two.
#[test]
fn no_heading_or_anchor_stands_twice_in_a_document() {
    let mut twice = Vec::new();
    // Each version in the changelog has the same headings.
    for file in files::ending("md").filter(|file| *file != "CHANGELOG.md") {
        let mut seen = BTreeSet::new();
        let places = anchors(&files::text(file));
        twice.extend(
            places
                .into_iter()
                .filter(|place| !seen.insert(place.clone()))
                .map(|place| format!("{file}: {place}")),
        );
    }
    assert!(twice.is_empty(), "{}", twice.join("\n"));
}

/// Paths of the repository that the documents name in backticks.
#[test]
fn every_file_that_a_document_names_exists() {
    let roots = [
        "src/",
        "tests/",
        "xtask/",
        "docs/",
        "contract/",
        "crds/",
        "charts/",
        "deploy/",
        "tools/",
        "fuzz/",
        ".ci/",
    ];
    let mut missing = Vec::new();
    for file in files::ending("md") {
        for span in files::text(file).split('`').skip(1).step_by(2) {
            let named =
                roots.iter().any(|r| span.starts_with(r)) && !span.contains(['*', '{', ' ', '<']);
            if named && !test_support::root().join(span).exists() {
                missing.push(format!("{file}: {span}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Tests and modules of tests that the documents name in backticks, such as `client::tls`.
#[test]
fn every_test_that_a_document_names_exists() {
    let suites: BTreeSet<&str> = TESTS.iter().map(|test| suite(&test.name)).collect();
    let mut missing = Vec::new();
    for file in files::ending("md") {
        for span in files::text(file).split('`').skip(1).step_by(2) {
            let below = format!("{span}::");
            let named = span.contains("::") && suites.contains(suite(span));
            let exists = |test: &Test| test.name == span || test.name.starts_with(&below);
            if named && !TESTS.iter().any(exists) {
                missing.push(format!("{file}: {span}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// The suite of a test, `suite::module::name`.
fn suite(test: &str) -> &str {
    test.split("::").next().unwrap_or_default()
}

#[test]
fn a_planted_host_link_or_anchor_is_found() {
    assert_eq!(
        hosts("replace-with = \"x\"\nregistry = \"sparse+https://u:p@mirror.example.org/a\""),
        ["mirror.example.org"]
    );
    assert!(hosts("proxy = \"http://127.0.0.1:80/\"").is_empty());
    assert_eq!(
        links("[a](b.md#c) ```\n[d](e)\n``` [f](#g)"),
        ["b.md#c", "#g"]
    );
    let text =
        "## What is guaranteed, and what is not\n<a id=\"R1\"></a>\n```sh\n# A comment\n```\n";
    assert_eq!(anchors(text), ["what-is-guaranteed-and-what-is-not", "R1"]);
    assert_eq!(
        files::tidy(Path::new("docs/../README.md")),
        Path::new("README.md")
    );
}

#[test]
fn every_make_target_that_a_document_names_exists() {
    let makefile = files::text("Makefile");
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter(|line| !line.starts_with(['\t', ' ', '.', '#']))
        .filter_map(|line| line.split_once(':'))
        .map(|(target, _)| target)
        .collect();
    let mut missing = Vec::new();
    for file in files::ending("md") {
        for span in files::text(file).split('`').skip(1).step_by(2) {
            let mut words = span.split_whitespace();
            let target = words
                .next()
                .filter(|w| *w == "make")
                .and_then(|_| words.next());
            missing.extend(
                target
                    .filter(|t| !targets.contains(t))
                    .map(|t| format!("{file}: make {t}")),
            );
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}
