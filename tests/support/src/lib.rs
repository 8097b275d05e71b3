//! What more than one suite, or a suite and `xtask`, needs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at what it did not expect, and what is used by tests only too"
)]

pub mod figures;
pub mod openapi;
pub mod programs;
pub mod source;
pub mod tools;

use std::path::Path;
use std::process::Command;

/// The checkout.
pub fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own)
}

/// The cargo that builds the running program, in the checkout.
fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}
