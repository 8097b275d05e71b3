//! The client against servers that send raw bytes, so that client and server can't share a codec bug. Each
//! test writes down the server's steps and checks what arrived there.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test, its helpers too, may stop at what it did not expect"
)]

#[path = "../openapi/mod.rs"]
mod openapi;

mod answers;
mod bounds;
mod contract;
mod contract_tool;
mod differences;
mod failures;
mod raw;
mod redirects;
mod secrets;
mod server;
mod stream;
mod support;
mod tls;
mod transport;
mod wire;
