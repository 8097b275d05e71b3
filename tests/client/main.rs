//! The client against servers that send raw bytes, so that client and server can't share a codec bug. Each
//! test writes down the server's steps and checks what arrived there.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test, its helpers too, may stop at what it did not expect"
)]

mod answers;
mod bounds;
mod contract;
mod openapi_differences;
mod openapi_document;
mod problem;
mod proxy;
mod redact;
mod redirects;
mod reference_service;
mod request;
mod server;
mod shared_streams;
mod stream;
mod support;
mod tls;
mod transport;
