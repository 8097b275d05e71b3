//! Index of the Runs by idempotency key, updated with each watch event, right after the store.

mod keys;
mod record;
mod runs;

#[cfg(test)]
pub(crate) mod tests;

pub use record::Record;
pub use runs::RunIndex;
