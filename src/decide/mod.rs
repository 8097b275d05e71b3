//! Layer 2: all policy, pure and synchronous. No clock, no client, no async.

pub mod answer;
