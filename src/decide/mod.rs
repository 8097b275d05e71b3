//! Layer 2: all policy, pure and synchronous. [`TrackedRun::next`](turn::TrackedRun::next) asks [`decide`] and gives
//! one [`Step`](turn::Step), which the controller, or a model of the tests, carries out. Guaranteed: no
//! [`Effect::Submit`] without an intent in the object that this process owns; [`Effect::Release`] only by the design's
//! deletion table; a terminal status never changes its phase, and leads to no call.

pub mod choice;
pub mod claims;
pub mod conditions;
pub mod console;
mod decision;
pub mod delays;
mod details;
pub mod event_buffer;
pub mod events;
mod facts;
pub mod failure;
mod inputs;
mod memory;
mod messages;
pub mod milestones;
pub mod queue;
pub mod request;
mod rules;
pub mod run;
pub mod schedule;
pub mod stream;
pub mod template;
pub mod truncate;
pub mod ttl;
pub mod turn;
pub mod workspace;

pub use choice::Choice;
pub use decision::{Decision, Effect, Follow, MetadataChange};
pub use events::EventDraft;
pub use inputs::{CallDelay, Inputs, Session, Settings, Stream, WorkspaceView, elsewhere};
pub use memory::{Memory, RefusedWrite, Report, ReportContext};
pub use run::decide;
