//! `contract/openapi.yaml` as the tests read it, and whether a request keeps to it.
//!
//! A suite includes it with `#[path = "../openapi/mod.rs"] mod openapi;`. It holds requests to the document
//! as they arrived, not as the client meant them: the service suite's from its server of bytes, those of the
//! integration tests and the demo from the reference service's `--record` ([`Record`]).

#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each suite that includes this module uses its own part of it; a document that can't be read fails it"
)]

mod document;
mod record;
mod request;
mod schema;

pub(crate) use document::{Document, Operation, Parameter, Place};
pub(crate) use record::Record;
pub(crate) use request::Request;
