//! Layer 3: the typed HTTP client of the Run Orchestration Service, by every rule of docs/service.md.
//! Knows nothing of Kubernetes.
//!
//! # Flow
//! A [`Client`] is made for one [`BaseUrl`] and used with [`Credentials`] that may change between
//! calls. Each of its six operations makes **one attempt** and returns what was learnt, or a
//! [`CallError`], which becomes a plain [`Failure`](crate::decide::answer::Failure). Whether to try
//! again is policy and lives in [`decide`](crate::decide). The event stream is an [`EventStream`]:
//! whoever holds it resumes it by opening another with its last event's id.
//!
//! # Guarantees
//! - The token goes to an allow-listed address alone, over https but for loopback; no redirect is
//!   followed and no proxy is taken from the environment (`HTTPS_PROXY` has no effect).
//! - It is in no error, no log line and no value that comes back, also when the service echoes it, and
//!   neither are those that it replaced ([`redact`] has the limits; rule 7).
//! - Every answer is bounded in size and time, and nothing is decompressed.
//! - What is kept of an answer is bounded, and what is meant to be shown is on one line.
//! - The `X-Request-ID` of every answer is kept (rule 11).
//!
//! # Assumptions
//! A TLS provider was installed for the process before [`Client::new`].
//!
//! # Caveats
//! A call whose future is dropped may have reached the service: it is as a lost answer.

mod answer;
mod base_url;
mod client;
mod credentials;
mod error;
mod events;
mod http_client;
mod http_pool;
mod ids;
mod observer;
mod problem;
#[cfg(any(test, fuzzing))]
#[path = "../../fuzz/properties/mod.rs"]
pub mod properties;
mod raw;
mod redact;
mod request;
mod retry_after;
pub mod sse;
mod text;

pub use answer::{VersionReply, WorkspaceReply};
pub use base_url::{AllowList, BaseUrl, BaseUrlError};
pub use client::Client;
pub use credentials::{Credentials, Token, TokenError, WorkspaceId, WorkspaceIdError};
pub use error::{BareAnswer, BodyError, BoxError, CallError, UnreadableReason};
pub use events::{EventStream, StreamItem};
pub use http_client::{ClientConfig, ConfigError};
pub use http_pool::HttpPool;
pub use ids::{IdempotencyKey, IdempotencyKeyError, RunId, RunIdError};
pub use observer::{Observer, Operation, Outcome};
pub use problem::Problem;
pub use raw::RawAnswer;
pub use sse::Event;
