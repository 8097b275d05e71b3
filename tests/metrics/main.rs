//! The alert rules and the dashboard against the metrics that exist, as Prometheus itself reads them. Needs
//! Go, and no cluster. What the operator really serves is seen in the suite `e2e`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

mod alerts;
mod dashboard;
mod names;

use test_support::files::text;
