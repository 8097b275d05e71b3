//! The CRDs and the admission policy: generated from the types, and on a real API server doing what they
//! say.
//!
//! A new rule is a new row: of `immutable::…` for an immutable field, of `updates::…` for a transition, of
//! `values::…` for what a field may hold.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../cluster/mod.rs"]
mod cluster;

mod drift;
mod immutable;
mod space;
mod status;
mod tenancy;
mod updates;
mod values;
mod views;
mod workload;
