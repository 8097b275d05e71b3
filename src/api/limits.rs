//! Maximum sizes of fields, in the schema and in the operator's writes.
//!
//! The schema counts characters and the operator cuts by bytes, at these figures or below: its writes
//! are then never refused, and a Run's status stays under 32 KiB.

/// Events kept in the status; the service keeps the rest.
pub const MAX_EVENTS: usize = 10;
/// Conditions of one object. A Run has ten types; other writers may add their own.
pub const MAX_CONDITIONS: usize = 32;
/// Labels, expressions, and values of one expression in a label selector.
pub const MAX_SELECTOR_TERMS: usize = 32;
/// Entries of a Workspace's list of providers, regions or images.
pub const MAX_ALLOWED: usize = 64;
/// `spec.priority`, above and below 0.
pub const MAX_PRIORITY: i32 = 1000;
/// Seconds of the longest deadline and of the longest time to live: 100 years, far below the
/// maximum of a timestamp.
pub const MAX_SECONDS: i64 = 100 * 365 * 24 * 3600;

/// Expressions of a RunSchedule.
pub const MAX_SCHEDULES: usize = 8;
/// Runs that a RunSchedule's status lists as active.
pub const MAX_ACTIVE: usize = 64;
/// Runs of a RunSchedule that stay after their end, of each outcome.
pub const MAX_HISTORY: i32 = 1000;
/// A RunTemplate's parameters, the values of one that are allowed, and labels or annotations of a template.
pub const MAX_PARAMETERS: usize = 64;

// Bytes of what the service sends. An identifier that is longer is refused, any other text is cut.
/// Longer, it can't be stored, so that a stream can't resume from it.
pub const MAX_EVENT_ID: usize = 256;
pub const MAX_EVENT_DATA: usize = 512;
pub const MAX_EVENT_TYPE: usize = 128;
pub const MAX_STATE: usize = 256;
/// An identifier.
pub const MAX_RUN_ID: usize = 512;
/// An identifier: it is compared.
pub const MAX_IDENTITY: usize = 256;
pub const MAX_REQUEST_ID: usize = 256;
pub const MAX_CODE: usize = 128;
pub const MAX_MESSAGE: usize = 1024;
pub const MAX_SERVICE_VERSION: usize = 256;
/// The workspace record.
pub const MAX_RECORD: usize = 1024;
/// Results of a run that the contract file can name.
pub const MAX_RESULTS: usize = 16;
/// A result's name.
pub const MAX_RESULT_NAME: usize = 63;
/// A result, as far as all of them have room.
pub const MAX_RESULT: usize = 1024;
/// All results as JSON, with their names: the status stays under 32 KiB.
pub const MAX_RESULTS_BYTES: usize = 4096;
/// An address: a longer one is refused.
pub const MAX_CONSOLE_URL: usize = 2048;
pub const MAX_PROGRESS_MESSAGE: usize = 256;
pub const MAX_FAILURE: usize = 1024;

// Bytes of what users write.
/// A whole object, as the API server sends it, up to which it is submitted. etcd takes 1.5 MiB; 64 KiB are left for the
/// intent, the largest status, and what the API server records of both in `managedFields`.
pub const MAX_OBJECT: usize = (1536 - 64) * 1024;
/// The retry annotation's value, as far as it is compared and kept.
pub const MAX_RETRY: usize = 256;
pub const MAX_BASE_URL: usize = 512;
/// `spec.idempotencyKey`.
pub const MAX_KEY: usize = 255;
/// The key as it is sent, with the namespace that scopes it.
pub const MAX_SENT_KEY: usize = 512;
/// The value of a header.
pub const MAX_WORKSPACE_ID: usize = 255;
/// `spec.managedBy`, as of a Job.
pub const MAX_MANAGER: usize = 63;
/// A provider or a region.
pub const MAX_PLACE: usize = 128;
/// `status.keptBy`: a tool and what shows it.
pub const MAX_KEEPER: usize = 128;

// Characters.
pub const MAX_IMAGE: usize = 2048;
/// An object's name, or a Secret's key.
pub const MAX_NAME: usize = 253;
/// A RunSchedule's name: a hyphen, the minute and the attempt follow in those of its Runs, as in `-202611300217.a2`.
pub const MAX_SCHEDULE_NAME: usize = MAX_NAME - 16;
/// One expression of a RunSchedule.
pub const MAX_SCHEDULE: usize = 256;
/// The name of a time zone.
pub const MAX_TIME_ZONE: usize = 64;
/// A parameter's value.
pub const MAX_VALUE: usize = 4096;
/// A DNS subdomain, a slash, a name.
pub const MAX_LABEL_KEY: usize = 317;
pub const MAX_LABEL_VALUE: usize = 63;
pub const MAX_UID: usize = 64;
/// A condition's reason.
pub const MAX_REASON: usize = 64;
