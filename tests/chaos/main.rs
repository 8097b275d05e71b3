//! No Run is lost or doubled: the operator, the API server, etcd and the service as processes that are killed,
//! stopped, cut off and started again. `RUN_OPERATOR_PROVE=full` makes it long, as `make prove` does.
//!
//! For what no simulated world has: tasks, watches, permits, real writes and the wire. A question of policy is
//! answered in a second by `tests/policy`, one of interleaved reads, writes and calls by `tests/model`.

#![allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at what it did not expect; metrics are whole numbers"
)]

#[path = "../e2e/support/mod.rs"]
mod support;

mod points;
mod soak;
mod storms;
mod tcp_proxy;

/// True for the full proofs, and not only the part that fits into a minute.
fn full() -> bool {
    std::env::var("RUN_OPERATOR_PROVE").is_ok_and(|much| much == "full")
}

/// Storm and soak each need the whole machine: one at a time.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
