//! Layer 3: the typed HTTP client of the Run Orchestration Service, by every rule of docs/service.md. Each operation of
//! a [`Client`] makes **one attempt**: retries are policy. The token goes only to an allow-listed address, over https
//! but for loopback, by no redirect and no proxy of the environment; nothing returned or logged contains it (rule 7;
//! [`text`] has the limits). A call whose future is dropped may have reached the service: a lost answer.

mod base_url;
mod client;
mod connect;
mod excerpt;
mod identity;
#[cfg(any(test, fuzzing))]
#[path = "../../fuzz/properties/mod.rs"]
pub mod properties;
mod proxy;
mod retry_after;
mod send;
pub mod sse;
mod stream;
mod text;

pub use base_url::{AllowList, BaseUrl, BaseUrlError};
pub use client::{Client, RawAnswer, VersionReply, WorkspaceReply};
pub use connect::{ClientConfig, ConfigError, HttpPool};
pub use identity::{Credentials, IdempotencyKey, Illegal, RunId, Token, TokenError, WorkspaceId};
pub use proxy::ServiceProxy;
pub use send::{Observer, Operation};
pub use sse::{Event, StreamItem};
pub use stream::EventStream;
