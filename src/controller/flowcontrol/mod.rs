//! Limits on calls and streams in flight: fair by namespace, bounded, paused when the service asks for it.
//!
//! Imports the metrics and the service's client; uses no object of the API server.

pub(crate) mod concurrency;
pub(crate) mod fair_queue;
pub(crate) mod gate;
mod rate_limit;
mod round_robin;
pub(crate) mod stream_slots;
mod stream_table;
