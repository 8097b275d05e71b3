//! The repository as text: its files, the tests in its Rust source, the statements of its documents, and the
//! marks that tie the two. The suite `project` checks them, `make generate` writes docs/conformance.md of them.

pub mod breakages;
pub mod files;
pub mod marks;
pub mod proofs;
pub mod statements;
pub mod suites;
pub mod tokens;
