//! Policy, branch by branch, and whole lives of a Run in a simulated world. No I/O, no clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test, its helpers too, may stop at what it did not expect"
)]

mod bodies;
mod checks;
mod classes;
mod clocks;
mod conditions;
mod conflicts;
mod contract;
mod contract_diff;
mod deletion;
mod doubt;
mod edges;
mod events;
mod feed;
#[cfg(feature = "proofs")]
#[path = "../figures/mod.rs"]
mod figures;
mod held;
mod histories;
mod intents;
mod last_events;
mod lives;
mod mended;
mod mirror;
mod places;
mod properties;
mod reads;
mod recheck;
mod refused;
#[cfg(feature = "proofs")]
mod rules;
mod sentences;
mod support;
mod tenancy;
mod times;
mod tracked;
mod troubled;
mod trust;
mod voices;
mod workspaces;
mod world;
