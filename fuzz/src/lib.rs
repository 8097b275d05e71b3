//! The layers that read what others write, by their paths: without the operator's own dependencies they build in a
//! fraction of the time, with the instrumentation as without.
#![allow(dead_code, reason = "the operator uses more of them than the targets")]

#[path = "../../src/api/mod.rs"]
pub mod api;
#[path = "../../src/clock.rs"]
pub mod clock;
#[path = "../../src/decide/mod.rs"]
pub mod decide;
#[path = "../../src/service/mod.rs"]
pub mod service;
#[path = "../../src/util.rs"]
pub mod util;
