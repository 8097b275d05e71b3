//! The repository as text: its files, the tests in its Rust source, the statements of its documents, and the
//! marks that tie the two. The suite `project` checks them, `make generate` writes docs/conformance.md of them.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "each user needs a part; either may stop where a file can't be read"
)]

pub(crate) mod files;
pub(crate) mod marks;
pub(crate) mod proofs;
pub(crate) mod statements;
pub(crate) mod suites;
pub(crate) mod tokens;
