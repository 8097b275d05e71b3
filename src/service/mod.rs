//! Layer 3: the typed HTTP client of the Run Orchestration Service, by every rule of docs/service.md.
//!
//! Each of the six operations of a [`Client`] makes **one attempt** and returns its result, or a
//! [`Failure`](crate::decide::failure::Failure): retries are policy. An [`EventStream`] is resumed by opening another
//! with its last event's id.
//!
//! # Guarantees
//! - The token is sent only to an allow-listed address, over https except for loopback; no redirect is followed and no
//!   proxy is taken from the environment (`HTTPS_PROXY` has no effect).
//! - No error, log line or returned value contains the token, even if the service echoes it, nor the tokens that it
//!   replaced ([`text`] has the limits; rule 7).
//! - Every answer is bounded in size and time, nothing is decompressed, and texts to be shown are on one line.
//! - The `X-Request-ID` of every answer is kept (rule 11).
//!
//! # Caveats
//! A call whose future is dropped may have reached the service: treat it as a lost answer.

mod base_url;
mod client;
mod connect;
mod identity;
#[cfg(any(test, fuzzing))]
#[path = "../../fuzz/properties/mod.rs"]
pub mod properties;
mod send;
pub mod sse;
mod stream;
mod text;

pub use base_url::{AllowList, BaseUrl, BaseUrlError};
pub use client::{Client, RawAnswer, VersionReply, WorkspaceReply};
pub use connect::{ClientConfig, ConfigError, HttpPool};
pub use identity::{Credentials, IdempotencyKey, Illegal, RunId, Token, TokenError, WorkspaceId};
pub use send::{Observer, Operation};
pub use sse::{Event, StreamItem};
pub use stream::EventStream;
