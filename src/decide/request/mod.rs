//! The create's request: its body, key and canonical form (rule 1).
//!
//! Imports only the API.

pub mod body;
pub mod canonical;
