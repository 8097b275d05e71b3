//! Layer 4: observe, decide, act, write the status. At most one reconcile or call of an object at a time; a call to the
//! service has a task of its own and delays no other Workspace's. Every Kubernetes write is guarded by uid and
//! resourceVersion, and every call has a time limit. Imports go downward: `manager`, `watch_events`, `run`, `schedule`, `workspace`,
//! `enqueue`, `refused` and `undecodable`, `context`, `state`, `apiserver`, `leader`, `metrics`.

mod apiserver;
mod context;
mod enqueue;
pub mod leader;
mod manager;
pub mod metrics;
mod object_metrics;
mod refused;
mod run;
mod schedule;
mod state;
mod undecodable;
mod watch_events;
mod workspace;

pub use apiserver::{BoundedRetry, CountRequests, throttle_watches};
pub use context::Config;
pub use manager::{Controller, Probe};
