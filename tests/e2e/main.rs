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
mod api_versions;
mod apiserver_outage;
mod apiserver_requests;
mod bad_input;
mod budget;
mod cached_token;
mod cli;
#[cfg(target_os = "linux")]
mod clock;
mod conditions;
mod conflicts;
mod congestion;
mod deadline;
mod deletion;
mod events;
mod faults;
mod gitops;
mod health;
mod idempotency;
mod identity;
mod in_doubt;
mod last_events;
mod leader;
mod least_privilege;
mod lifecycle;
mod many_workspaces;
mod metrics;
mod namespace_deletion;
mod open_files;
mod openapi_requests;
mod pinning;
mod read_retries;
mod recheck;
mod restart;
mod rotation;
mod runs;
mod secret_permissions;
mod secure_metrics;
mod security;
mod settled;
mod spec_fields;
mod stale;
mod stream_slots;
mod streams;
mod support_bundle;
mod tampering;
mod tenancy;
mod token;
mod ttl;
mod undecodable;
mod version_gate;
mod workspace_finalizer;
