//! The chart and what is rendered from it: by the real Helm, on a real API server. No node is needed: the
//! operator in a Pod is tested by the suite `install`.
//!
//! A new value is a line of `values.yaml`. A value that must be refused is a row of `refusals`, and its
//! effect a sentence in `rendered`. A new way to install is a file in `charts/run-operator/ci`: `admission`
//! applies each.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod admission;
mod admission_policies;
mod alerts;
mod doctor;
mod helm;
mod kubernetes_version;
mod kustomize;
mod namespace;
mod nulls;
mod placement;
mod pod;
mod rbac;
mod release;
mod rendered;
mod secure_metrics;
mod sources;
mod values_schema;
