//! The product as it is installed: real Helm, the real chart, the real image in a Pod of a real node, under the service
//! account that the chart makes. Where there is no node (no root, no containerd, no image) it is skipped; the chart's
//! rights and arguments are proved without one in `packaging` and `e2e`.
//!
//! `RUN_OPERATOR_TEST_NODE=required|off|auto` chooses; `RUN_OPERATOR_TEST_IMAGE` names another image than
//! that of `make image`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "the suite e2e uses more of it")]
#[path = "../e2e/support/service.rs"]
mod service;
#[allow(dead_code, reason = "the suite e2e uses more of it")]
#[path = "../e2e/support/wait.rs"]
mod wait;

mod image;
mod installation;
mod load;
mod mixed;
mod operator;
mod pod;
mod published;
mod quickstart;
mod readme;
mod release;
mod runs;
mod upgrades;
