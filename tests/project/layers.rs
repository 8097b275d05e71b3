//! Five layers, each knowing only those above it.

use std::path::Path;

use rstest::rstest;

use crate::{files, paths, tokens};

/// Names that a layer must not use, and why. A path is forbidden with everything below it.
struct Layer {
    /// Its folder or file below the repository.
    at: &'static str,
    /// Paths from the root.
    roots: &'static [&'static [&'static str]],
    /// Paths that are forbidden in any position, as in `Timestamp::now`.
    tails: &'static [&'static str],
    /// Keywords.
    words: &'static [&'static str],
}

const IO: &[&str] = &[
    "tokio",
    "tokio_util",
    "reqwest",
    "hyper",
    "hyper_util",
    "axum",
    "futures",
    "rustls",
    "kube::Client",
    "kube::client",
    "kube::Api",
    "kube::api",
    "kube::Config",
    "kube::config",
    "kube::runtime",
    "kube_runtime",
    "kube_client",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::env",
    "std::io",
    "std::os",
    "tracing",
    "clap",
    "prometheus_client",
    "uuid",
    "crate::service",
    "crate::controller",
    "crate::clock",
];
/// No clock: time is an argument.
const CLOCKS: &[&str] = &["Timestamp::now", "Zoned::now", "SystemTime", "Instant"];
const NO_ASYNC: &[&str] = &["async", "await"];

const API: Layer = Layer {
    at: "src/api",
    roots: &[IO, &["crate::decide"]],
    tails: CLOCKS,
    words: NO_ASYNC,
};
const DECIDE: Layer = Layer {
    at: "src/decide",
    roots: &[IO],
    tails: CLOCKS,
    words: NO_ASYNC,
};
const SERVICE: Layer = Layer {
    at: "src/service",
    roots: &[&[
        "kube",
        "k8s_openapi",
        "kube_runtime",
        "crate::controller",
        "axum",
        "clap",
        "prometheus_client",
    ]],
    tails: &[],
    words: &[],
};
/// The top layer is the binary's own: the command line and the health server.
const CONTROLLER: Layer = Layer {
    at: "src/controller",
    roots: &[&["clap", "axum", "std::env", "std::process", "reqwest"]],
    tails: &[],
    words: &[],
};
/// It shares no types with the client, so that the two can't share a mistake.
const REFERENCE_SERVICE: Layer = Layer {
    at: "tests/reference-service",
    roots: &[&["run_operator", "kube", "k8s_openapi", "reqwest"]],
    tails: &[],
    words: &[],
};

/// The violations in a file: one line each.
fn violations(layer: &Layer, file: &str, source: &str) -> Vec<String> {
    let module = module_of(file);
    let mut found = Vec::new();
    for (line, path) in paths::named(source, &module, true).paths {
        let root = layer
            .roots
            .iter()
            .copied()
            .flatten()
            .find(|r| begins(&path, r));
        let tail = layer.tails.iter().find(|t| contains(&path, t));
        if let Some(what) = root.or(tail) {
            let path = path.join("::");
            found.push(format!("{file}:{line}: {path} (no {what} in {})", layer.at));
        }
    }
    for (line, token) in tokens::read(source) {
        if let Some(word) = layer.words.iter().find(|w| token.is_word(w)) {
            found.push(format!("{file}:{line}: {word} (not in {})", layer.at));
        }
    }
    found
}

fn begins(path: &[String], root: &str) -> bool {
    let mut segments = path.iter();
    root.split("::")
        .all(|r| segments.next().is_some_and(|s| s == r))
}

fn contains(path: &[String], tail: &str) -> bool {
    let tail: Vec<&str> = tail.split("::").collect();
    path.windows(tail.len())
        .any(|w| w.iter().zip(&tail).all(|(a, b)| a == b))
}

/// `src/service/sse/mod.rs` is `service::sse`.
pub(crate) fn module_of(file: &str) -> Vec<String> {
    let path = Path::new(file.strip_prefix("src/").unwrap_or_default());
    let stem = path.with_extension("");
    let names = stem.iter().map(|s| s.to_string_lossy().into_owned());
    names
        .filter(|name| !matches!(name.as_str(), "mod" | "lib" | "main"))
        .collect()
}

/// Proves: L-layers, L-reference
#[rstest]
#[case::api(API)]
#[case::decide(DECIDE)]
#[case::service(SERVICE)]
#[case::controller(CONTROLLER)]
#[case::reference_service(REFERENCE_SERVICE)]
fn a_layer_knows_only_those_above_it(#[case] layer: Layer) {
    let sources = files::below(layer.at, "rs");
    assert!(
        sources.len() > 3,
        "{} is not where it was: {sources:?}",
        layer.at
    );
    let found: Vec<String> = sources
        .iter()
        .flat_map(|file| violations(&layer, file, &files::text(file)))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Proves: L-layers
#[test]
fn flags_health_and_start_belong_to_the_binary_alone() {
    let library = tokens::read(&files::text("src/lib.rs"));
    for module in ["cli", "contract_file", "contract_tool", "health", "start"] {
        let named = library.iter().any(|(_, token)| token.is_word(module));
        assert!(!named, "src/lib.rs names {module}, which is the binary's");
    }
}

/// Proves: L-layers
#[rstest]
#[case::client(&API, "use kube::{Api, CustomResource};", true)]
#[case::derive(&API, "use kube::CustomResource;", false)]
#[case::file(&API, "fn f() { let _ = std::fs::read(\"x\"); }", true)]
#[case::clock(&API, "fn f() { jiff::Timestamp::now(); }", true)]
#[case::imported_clock(&DECIDE, "use jiff::Timestamp; fn f() { Timestamp::now(); }", true)]
#[case::system_time(&DECIDE, "use std::time::{Duration, SystemTime};", true)]
#[case::instant(&DECIDE, "fn f() { std::time::Instant::now(); }", true)]
#[case::own_clock(&DECIDE, "fn f() { crate::clock::now(); }", true)]
#[case::duration(&DECIDE, "use std::time::Duration;", false)]
#[case::asynchronous(&DECIDE, "async fn f() {}", true)]
#[case::attribute(&DECIDE, "#[tokio::test] fn f() {}", true)]
#[case::renamed(&DECIDE, "use tokio as t;", true)]
#[case::upwards(&DECIDE, "use crate::service::Client;", true)]
#[case::relative(&DECIDE, "use super::super::controller::Context;", true)]
#[case::comment(&DECIDE, "// tokio::spawn\nconst A: &str = \"tokio::spawn\";", false)]
#[case::api_decides(&API, "use crate::decide::Memory;", true)]
#[case::kubernetes(&SERVICE, "use k8s_openapi::api::core::v1::Secret;", true)]
#[case::runtime(&SERVICE, "use tokio::time::timeout;", false)]
#[case::shared_types(&REFERENCE_SERVICE, "use run_operator::api::Run;", true)]
fn a_planted_violation_is_found(#[case] layer: &Layer, #[case] source: &str, #[case] found: bool) {
    let file = format!("{}/sub/planted.rs", layer.at).replace("/sub/", "/");
    assert_eq!(
        !violations(layer, &file, source).is_empty(),
        found,
        "{source}"
    );
}
