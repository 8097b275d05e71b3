//! Kubernetes Events: the changes that deserve one, their texts, and their limits.
//!
//! Imports the API and text rendering; no decision.

pub mod correlator;
pub mod event;
pub mod transitions;
