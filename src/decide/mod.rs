//! Layer 2: all policy, pure and synchronous. No clock, no client, no async.
//!
//! # Flow
//! [`TrackedRun::next`](turn::TrackedRun::next) asks [`decide`] and gives one [`Step`](turn::Step): a status, or else the
//! effect. The controller carries it out, [`TrackedRun::took`](turn::TrackedRun::took) records what became of it, and so
//! on. An effect on the object is a [`MetadataChange`](metadata_change::MetadataChange). The models of the tests carry
//! out the same steps.
//!
//! # Guarantees
//! - No [`Effect::Submit`] without an intent in the object that this process owns.
//! - [`Effect::Release`] only by the deletion table of the design.
//! - A terminal status never changes its phase, and leads to no call.
//!
//! # Assumptions
//! - `Observed::run` is at least as new as this process's own last write to it.
//! - Two clocks: `now` never steps and paces this process; `wall` is stored, and compared with stored times. When the
//!   wall clock has stepped, a caller that waits for [`Decision::requeue_at`] decides again.
//! - No request outlives the contract file's `keyRetentionSeconds`.
//!
//! # Layout
//! Imports go downward in this list, never up: [`run`], [`workspace`], `messages`, `observation`, then the input and
//! output of a decision, and below that the parts that import neither.

pub mod backoff;
mod cancel_cause;
pub mod conditions;
mod decision;
pub mod event_buffer;
pub mod events;
pub mod failure;
pub mod gitops;
pub mod key_claim;
pub mod last_events;
pub mod memory;
mod messages;
pub mod metadata_change;
mod observation;
mod observed;
pub mod request;
pub mod run;
pub mod stream_pause;
pub mod time;
pub(crate) mod token_bucket;
pub mod truncate;
pub mod turn;
pub mod undecodable;
pub mod workspace;

pub use decision::{Decision, Effect, Follow};
pub use events::EventDraft;
pub use memory::{Learned, Learning, Memory};
pub use observed::{CallDelay, Observed, Session, Settings, Stream, WorkspaceView};
pub use run::decide;
