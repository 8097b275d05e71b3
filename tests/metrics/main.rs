//! The alert rules and the dashboard against the metrics that exist, as Prometheus itself reads them. Needs
//! Go, and no cluster. What the operator really serves is seen in the suite `integration`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

mod alerts;
mod dashboard;
#[path = "../tools/go_tool.rs"]
mod go_tool;
mod names;
#[path = "../tools/mod.rs"]
mod tools;

use go_tool::go_tool;

/// A file of the repository.
fn text(path: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
