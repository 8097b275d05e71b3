//! Layer 4: observe, decide, act, write the status. The only place where Kubernetes and the service
//! meet.
//!
//! # Flow
//! A watch feeds a store, and whatever may change a decision wakes the object: its own watch, its
//! Workspace, its event stream, the time. [`reconcile`] asks policy and carries out one effect at a time
//! until nothing is left to be done now.
//!
//! # Guarantees
//! - At most one reconcile of an object at a time.
//! - Every Kubernetes write is guarded by uid and resourceVersion, every call has a time limit.
//! - An object that can't be decoded, or whose reconcile panics, stops no other.

mod act;
mod checks;
mod context;
mod departure;
mod kinds;
mod lifecycle;
mod limiter;
mod metrics;
mod namespaces;
mod notes;
mod objects;
mod queue;
mod reaper;
mod reconcile;
mod registry;
mod rivals;
mod scope;
mod secret_table;
mod secret_watch;
mod secrets;
mod settle;
mod streams;
mod verify;
mod wake;
mod watch;
mod workspaces;
mod writes;

pub use context::Config;
pub use lifecycle::{Controller, Probe};
pub use watch::chain;
