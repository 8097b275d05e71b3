//! What must hold for every byte that somebody else writes: a function for each fuzz target, which returns or
//! panics. `make fuzz` looks for bytes that break one; the ordinary tests run each over its corpus, without a
//! nightly compiler (`replay`).
//!
//! It is compiled into the service layer, under `cfg(test)` and `cfg(fuzzing)` alone: what is tried is what the
//! client itself uses, most of which no other layer may see.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a panic is how a property fails"
)]

mod answer;
mod contract;
mod identifiers;
mod intent;
mod problem;
#[cfg(test)]
mod replay;
mod said;
mod sse;

pub use answer::answer;
pub use contract::contract;
pub use identifiers::identifiers;
pub use intent::intent;
pub use problem::problem;
pub use sse::sse;

/// A property of bytes.
pub type Property = fn(&[u8]);

/// Every property, by the name of its target and of its corpus.
pub const ALL: [(&str, Property); 6] = [
    ("answer", answer),
    ("contract", contract),
    ("identifiers", identifiers),
    ("intent", intent),
    ("problem", problem),
    ("sse", sse),
];
