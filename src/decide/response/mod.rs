//! The service's answers and their meaning.
//!
//! Imports the API, the invariants and the cutting of texts.

pub mod answer;
pub mod classify;
