//! The chart and what is rendered from it: by the real Helm, on a real API server. No node is needed: what
//! the operator does in a Pod is the suite `install`'s.
//!
//! A new value is a line of `values.yaml`; what it must not be is a row of `refusals`, and what it comes to
//! a sentence in `rendered`. A new way to install is a file in `charts/run-operator/ci`: `admission` applies
//! each.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../cluster/mod.rs"]
mod cluster;

mod admission;
mod doctor;
mod helm;
mod kustomize;
mod pod;
mod policy;
mod refusals;
mod release;
mod rendered;
mod rights;
mod sources;
mod space;
