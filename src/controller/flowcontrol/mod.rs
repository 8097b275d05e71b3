//! The places for event streams, shared by namespace.
//!
//! Imports the metrics; uses no object of the API server.

pub(crate) mod stream_slots;
mod stream_table;
