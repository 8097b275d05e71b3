//! The service's answers and their meaning.
//!
//! Imports the API and the cutting of texts.

pub mod answer;
pub mod classify;
