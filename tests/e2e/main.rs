//! The operator as a process, on a real API server, against the reference service. Each test has a
//! namespace, a service and an operator of its own; [`support::World`] makes them.

#![allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at what it did not expect; metrics are whole numbers"
)]

mod support;

mod access_scope;
mod answers;
mod api_versions;
#[cfg(target_os = "linux")]
mod apiserver_requests;
mod bad_input;
mod budget;
mod cli;
#[cfg(target_os = "linux")]
mod clock;
mod congestion;
mod deletion;
mod details;
mod events;
mod gitops;
mod health;
mod idempotency;
mod large_objects;
mod leader;
mod least_privilege;
mod lifecycle;
mod many_workspaces;
mod metrics;
mod namespace_deletion;
mod open_files;
mod openapi_requests;
mod pinning;
mod proxies;
mod queue;
mod restart;
mod runs;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod schedules;
mod secret_permissions;
mod secure_metrics;
mod security;
mod settled;
mod stale;
mod stream_slots;
mod streams;
mod support_bundle;
mod tenancy;
mod token;
mod ttl;
mod undecodable;
mod version_gate;
mod workspace_finalizer;
