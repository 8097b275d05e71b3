//! Maximum sizes of fields, in the schema and in the operator's writes.
//!
//! The schema counts characters and the operator cuts by bytes, at these figures or below: its writes
//! are then never refused, and a Run's status stays under 32 KiB.

/// Events kept in the status; the service keeps the rest.
pub const MAX_EVENTS: usize = 10;
/// Bytes of an event's data that the status keeps.
pub const MAX_EVENT_DATA: usize = 512;
/// Bytes of an event's id. A longer one can't be stored, so a stream can't resume from it.
pub const MAX_EVENT_ID: usize = 256;
/// Bytes of an event's type.
pub const MAX_EVENT_TYPE: usize = 128;
/// Bytes of the service's name of a state.
pub const MAX_STATE: usize = 256;
/// Bytes of a runId. It is an identifier: a longer one is refused, not cut.
pub const MAX_RUN_ID: usize = 512;
/// Bytes of a request id.
pub const MAX_REQUEST_ID: usize = 256;
/// Bytes of an error code.
pub const MAX_CODE: usize = 128;
/// Bytes of an error's or a condition's message.
pub const MAX_MESSAGE: usize = 1024;
/// Bytes of the service's identity of a workspace. It is compared: a longer one is refused, not cut.
pub const MAX_IDENTITY: usize = 256;
/// Bytes of the retry annotation's value that are compared and kept.
pub const MAX_RETRY: usize = 256;
/// Bytes of the version that the service reports.
pub const MAX_SERVICE_VERSION: usize = 256;
/// Bytes of the workspace record that the status keeps.
pub const MAX_RECORD: usize = 1024;
/// Bytes of a base URL.
pub const MAX_BASE_URL: usize = 512;
/// Bytes of the key in `spec.idempotencyKey`.
pub const MAX_KEY: usize = 255;
/// Bytes of the key as it is sent, the namespace that scopes it included.
pub const MAX_SENT_KEY: usize = 512;
/// Bytes of `workspaceId`, the value of a header.
pub const MAX_WORKSPACE_ID: usize = 255;
/// Bytes of a provider's or a region's name.
pub const MAX_PLACE: usize = 128;
/// `status.keptBy`: a tool and one of its marks.
pub const MAX_KEEPER: usize = 128;
/// Characters of an image reference.
pub const MAX_IMAGE: usize = 2048;
/// Characters of an object's name, and of a Secret's key.
pub const MAX_NAME: usize = 253;
/// Labels, expressions, and values of one expression in a label selector.
pub const MAX_SELECTOR_TERMS: usize = 32;
/// Characters of a label's key: a DNS subdomain, a slash, a name.
pub const MAX_LABEL_KEY: usize = 317;
/// Characters of a label's value.
pub const MAX_LABEL_VALUE: usize = 63;
/// Characters of a uid.
pub const MAX_UID: usize = 64;
/// Conditions of one object. A Run has eight.
pub const MAX_CONDITIONS: usize = 10;
/// Characters of a condition's reason.
pub const MAX_REASON: usize = 64;
/// Seconds of the longest deadline and of the longest time to live: 100 years, far below the
/// maximum of a timestamp.
pub const MAX_SECONDS: i64 = 100 * 365 * 24 * 3600;
