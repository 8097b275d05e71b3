//! Policy, branch by branch, and whole lives of a Run in a simulated world. No I/O, no clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test, its helpers too, may stop at what it did not expect"
)]

mod authorization;
mod boundaries;
mod choice;
mod classify;
mod conditions;
mod conflicts;
mod contract;
mod deadline_and_ttl;
mod deletion;
mod details;
mod effects;
mod event_buffer;
mod events;
mod gitops_tools;
mod histories;
mod in_doubt;
mod intent_repair;
mod intents;
mod key_claim;
mod last_events;
mod lifecycle;
mod liveness;
mod messages;
mod mirror;
mod pinning;
mod properties;
mod queue;
mod read_retries;
mod recheck;
mod refusal;
mod refused_writes;
mod request;
mod rules;
mod schedules;
mod settled;
mod submissions;
mod support;
mod tenancy;
mod throttling;
mod undecodable;
mod wall_clock;
mod workspace_check;
mod workspace_probe;
mod workspace_standing;
mod world;
