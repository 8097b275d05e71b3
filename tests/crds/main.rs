//! The CRDs and the admission policy: generated from the types, and in force on a real API server.
//!
//! A new rule is a new row: of `immutable::…` for an immutable field, of `updates::…` for a transition, of
//! `values::…` for the values of a field.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod defaults;
mod generated;
mod immutable;
mod kubectl;
mod namespace;
mod status;
mod tenancy;
mod updates;
mod values;
mod workload;
