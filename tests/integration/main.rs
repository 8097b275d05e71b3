//! The operator as a process, on a real API server, against the reference service. Each test has a
//! namespace, a service and an operator of its own; [`support::World`] makes them.

#![allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at what it did not expect; metrics are whole numbers"
)]

#[path = "../cluster/mod.rs"]
mod cluster;
#[path = "../figures/mod.rs"]
mod figures;
#[path = "../openapi/mod.rs"]
mod openapi;
mod support;
#[path = "../tools/mod.rs"]
mod tools;

// `tools` imports it from here.
use cluster::go_tool;

mod bad_input;
mod budget;
mod cli;
#[cfg(target_os = "linux")]
mod clock;
mod conflicts;
mod congestion;
mod contract;
mod deadline;
mod deletion;
mod doubt;
mod elsewhere;
mod events;
mod faults;
mod files;
mod gitops;
mod health;
mod identity;
mod keys;
mod last_events;
mod last_token;
mod leader;
mod least_rights;
mod lifecycle;
mod many_workspaces;
mod metrics;
mod namespaces;
mod one_failure;
mod outage;
mod reach;
mod reads;
mod requests;
mod restart;
mod rights;
mod rotation;
mod rows;
mod security;
mod spec_fields;
mod stale;
mod stream_places;
mod streams;
mod tampering;
mod tenancy;
mod token;
mod ttl;
mod undecodable;
mod workspaces;
