//! No Run is lost or doubled: the operator, the API server, etcd and the service as processes that are killed,
//! stopped, cut off and started again. `RUN_OPERATOR_PROVE=full` makes it long.
//!
//! For what no simulated world has: tasks, watches, permits, real writes and the wire. A question of policy is
//! answered in a second by `tests/policy`, one of interleaved reads, writes and calls by `tests/model`.
//!
//! # Flow
//! The operator is the one that ships: nothing in it knows of these tests. Its wires lead through the proxies of
//! `tests/e2e/support/proxy`, its wall clock is moved by a library that is loaded before its own
//! (`tests/e2e/support/wall_clock.c`), and it is killed by its pid.

#![allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at what it did not expect; metrics are whole numbers"
)]

#[path = "../e2e/support/mod.rs"]
mod support;

mod outages;
mod points;
#[cfg(target_os = "linux")]
mod schedules;
mod storms;

/// True for the full proofs, and not only the part that every change must pass.
fn full() -> bool {
    std::env::var("RUN_OPERATOR_PROVE").is_ok_and(|much| much == "full")
}

/// Each test needs the whole machine: one at a time.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
