//! `contract/openapi.yaml` as the tests read it, and the differences of a request from it.
//!
//! Requests are compared as they arrived, not as the client meant them: those of the suite `client` come from its server
//! of bytes, those of `e2e` and the demo from the reference service's `--record` ([`Record`]).

mod document;
mod record;
mod request;
mod schema;

pub use document::{Document, Operation, Parameter, Place};
pub use record::Record;
pub use request::Request;
