//! Layer 4: observe, decide, act, write the status. Only here do Kubernetes and the service meet.
//!
//! # Flow
//! A watch feeds a store. The object is enqueued by any change that may affect a decision: its watch, its Workspace,
//! its event stream, the time. [`reconcile`] asks policy and carries out one effect at a time until nothing is left to
//! do now. A call to the service is made in a task of its own. The task takes a permit of its Workspace's
//! limiter, records the outcome and enqueues the object.
//!
//! # Guarantees
//! - At most one reconcile or call of an object at a time.
//! - A call to the service occupies no worker of a loop, and one Workspace's calls delay no other's.
//! - Every Kubernetes write is guarded by uid and resourceVersion, and every call has a time limit.
//! - With leader election, one operator acts; the others only fill their caches.
//! - An object that can't be decoded, or whose reconcile panics, stops no other.
//!
//! # Layout
//! Imports go downward in this list, never up: `manager`, `watch_events`, `run`, `workspace`, `enqueue` and
//! `undecodable`, `context`, `state`, `apiserver`, `leader`, `metrics`.

mod apiserver;
mod context;
mod enqueue;
pub mod leader;
mod manager;
pub mod metrics;
mod object_metrics;
mod run;
mod state;
mod undecodable;
mod watch_events;
mod workspace;

pub use apiserver::{BoundedRetry, CountRequests, throttle_watches};
pub use context::Config;
pub use manager::{Controller, Probe};
