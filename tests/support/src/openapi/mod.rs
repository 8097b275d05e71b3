//! `contract/openapi.yaml` as the tests read it, and whether a request keeps to it.
//!
//! Requests are held to the document
//! as they arrived, not as the client meant them: the service suite's from its server of bytes, those of the
//! integration tests and the demo from the reference service's `--record` ([`Record`]).

mod document;
mod record;
mod request;
mod schema;

pub use document::{Document, Operation, Parameter, Place};
pub use record::Record;
pub use request::Request;
