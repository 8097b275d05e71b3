//! The service's answers and their meaning.
//!
//! Imports the API and the invariants.

pub mod answer;
pub mod classify;
