//! The repository itself: that the layers hold, that what the documentation names exists, and that every
//! rule and promise has a test that proves it. No cluster, no network.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test, its helpers too, may stop at what it did not expect"
)]

mod breakages;
mod capture;
mod circles;
mod commands;
mod conformance;
mod layers;
mod limits;
mod lua;
mod names;
mod paths;
mod predicates;
mod proofs;
mod prose;
mod tables;
mod versions;
mod workflows;

use test_support::source::{files, tokens};
