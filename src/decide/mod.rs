//! Layer 2: all policy, pure and synchronous. No clock, no client, no async.
//!
//! # Flow
//! [`TrackedRun::next`](turn::TrackedRun::next) asks [`decide`] and gives one [`Step`](turn::Step): a status, or else the
//! effect. The controller, and each model of the tests, carries it out, and so on.
//!
//! # Guarantees
//! - No [`Effect::Submit`] without an intent in the object that this process owns.
//! - [`Effect::Release`] only by the deletion table of the design.
//! - A terminal status never changes its phase, and leads to no call.
//!
//! # Assumptions
//! - `Inputs::run` is at least as new as this process's own last write to it.
//! - Two clocks: `now` never steps and paces this process; `wall` is stored, and compared with stored times. When the
//!   wall clock has stepped, a caller that waits for [`Decision::requeue_at`] decides again.
//! - No request outlives the contract file's `keyRetentionSeconds`.
//!
//! # Layout
//! Imports go downward: [`run`], `ttl`, [`workspace`], `messages`, `facts`, the input and output of a decision, the rest.

pub mod claims;
pub mod conditions;
mod decision;
pub mod delays;
pub mod event_buffer;
pub mod events;
mod facts;
pub mod failure;
mod inputs;
mod memory;
mod messages;
pub mod request;
pub mod run;
pub mod stream;
pub mod truncate;
pub mod ttl;
pub mod turn;
pub mod workspace;

pub use decision::{Decision, Effect, Follow, MetadataChange};
pub use events::EventDraft;
pub use inputs::{CallDelay, Inputs, Session, Settings, Stream, WorkspaceView, elsewhere};
pub use memory::{Memory, Report, ReportContext};
pub use run::decide;
