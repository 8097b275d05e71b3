//! The repository itself: that the layers hold, that the reference pages have what the code has, and that each
//! statement of docs/design.md and docs/service.md has a test. No cluster, no network.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test, its helpers too, may stop at what it did not expect"
)]

mod commands;
mod documents;
mod layers;
mod references;
mod statements;
mod workflows;

use test_support::files;
