//! What more than one suite, or a suite and `xtask`, needs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at what it did not expect, and what is used by tests only too"
)]

pub mod connect_proxy;
pub mod files;
pub mod openapi;
pub mod proc;
pub mod programs;
pub mod registry;

pub mod tools;

use std::path::Path;
use std::process::Command;

/// The checkout.
pub fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own)
}

/// Checks that every one of these is in a text.
///
/// # Panics
/// With the first that isn't, and the text.
#[track_caller]
pub fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
}

/// Whether a request to the API server, by its URI, is a watch that begins with a list.
pub fn streams_a_list(uri: &str) -> bool {
    uri.contains("sendInitialEvents=true")
}

/// What Cargo knows of the workspace's own packages, as JSON.
///
/// # Panics
/// If Cargo can't be run.
pub fn metadata() -> Vec<u8> {
    let mut cargo = cargo();
    cargo.args(["metadata", "--no-deps", "--offline"]);
    let listed = cargo.args(["--format-version", "1"]).output().unwrap();
    let error = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "{error}");
    listed.stdout
}

/// The cargo that builds the running program, in the checkout.
pub fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    calling_cargo(Path::new(&cargo))
}

/// A program, in the checkout, that is cargo or calls it.
pub fn calling_cargo(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    // Cargo sets these variables for the programs that it runs, and ring's build script depends on them. With them set
    // a nested cargo would rebuild ring and all that depends on it, and the next cargo without them would do so again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    command
}
