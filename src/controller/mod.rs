//! Layer 4: observe, decide, act, write the status. The only place where Kubernetes and the service
//! meet.
//!
//! # Flow
//! A watch feeds a store, and whatever may change a decision wakes the object: its own watch, its
//! Workspace, its event stream, the time. [`reconcile`] asks policy and carries out one effect at a time
//! until nothing is left to be done now. A call to the service is made by a task of its own, which passes
//! its Workspace's [`gate`] and wakes the object when it has learnt the outcome.
//!
//! # Guarantees
//! - At most one reconcile or call of an object at a time.
//! - A call to the service holds no place in a loop, and one Workspace's calls hold up no other's.
//! - Every Kubernetes write is guarded by uid and resourceVersion, every call has a time limit.
//! - Of several operators with an election one acts: the others fill their caches, and nothing else.
//! - An object that can't be decoded, or whose reconcile panics, stops no other.

mod absent;
mod act;
mod afresh;
mod apiserver;
mod calls;
mod census;
mod check_places;
mod checks;
mod context;
mod departure;
mod files;
mod follower;
mod gate;
mod handlers;
mod index;
mod kinds;
mod lanes;
pub mod leader;
mod lifecycle;
mod limiter;
mod loops;
pub mod metrics;
mod namespaces;
mod notes;
mod objects;
mod patience;
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
mod stream_places;
mod stream_table;
mod streams;
mod turns;
mod undecodable;
mod verify;
mod versions;
mod wake;
mod wall_clock;
mod watch;
mod window;
mod workspaces;
mod writes;

pub use context::Config;
pub use files::OpenFiles;
pub use lifecycle::{Controller, Probe};
pub use patience::{PaceWatches, Patience};
pub use watch::chain;
