//! Errors of a call, and their conversion for policy.

use std::io;
use std::time::Duration;

use crate::decide::failure::{Failure, FailureKind};

use super::head::Head;
use super::problem::Problem;
use super::text::{MESSAGE_BYTES, one_line, with_causes};
use super::{CallError as E, RunIdError};

/// `ENFILE` and `EMFILE`, on every Unix.
const NO_FILE: [i32; 2] = [23, 24];

/// A cause whose type is private.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Error of one attempt of a call. Holds no token, no body and no URL.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The request can't be written: nothing was sent.
    #[error("failed to build the request")]
    BuildRequest(#[source] BoxError),
    /// No connection: name not found, refused, TLS not agreed on, timeout.
    #[error("failed to connect to the service")]
    Connect(#[source] reqwest::Error),
    /// Connected, but no answer: the request's outcome is unknown.
    #[error("failed to get an answer from the service")]
    Exchange(#[source] reqwest::Error),
    /// No answer in time: the request's outcome is unknown.
    #[error("failed to get an answer from the service within {seconds} s")]
    AwaitAnswer {
        /// The contract file's `requestSeconds`.
        seconds: u64,
    },
    /// The answer began but did not end.
    #[error("failed to read the service's answer to its end")]
    ReadBody {
        /// The answer's status.
        status: u16,
        /// Its request id (rule 11).
        request_id: Option<String>,
        /// The cause.
        source: BodyError,
    },
    /// An answer with a problem body (rule 8).
    #[error(transparent)]
    Problem(Box<Problem>),
    /// An error status without a problem body, a proxy's own page for example.
    #[error(transparent)]
    Bare(Box<BareAnswer>),
    /// An answer that is no error, but doesn't follow the contract.
    #[error("failed to read the service's answer (HTTP {status})")]
    Unreadable {
        /// The answer's status.
        status: u16,
        /// Its request id (rule 11).
        request_id: Option<String>,
        /// The cause.
        #[source]
        reason: UnreadableReason,
    },
}

/// An error status without a problem body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the service answered HTTP {status} without a problem body")]
pub struct BareAnswer {
    /// The answer's status, 400 to 599.
    pub status: u16,
    /// Its request id (rule 11).
    pub request_id: Option<String>,
    /// Its `Retry-After`, unclamped.
    pub retry_after: Option<Duration>,
}

/// Reason why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The connection was cut.
    #[error("failed to receive the rest")]
    Cut(#[source] reqwest::Error),
    /// The call's time was over.
    #[error("it did not end within {seconds} s")]
    TimedOut {
        /// The contract file's `requestSeconds`.
        seconds: u64,
    },
    /// An event stream without a byte, not even a comment.
    #[error("nothing was received for {seconds} s")]
    Idle {
        /// The contract file's `streamIdleSeconds`.
        seconds: u64,
    },
}

/// Defect of an answer that is no error.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableReason {
    /// 3xx.
    #[error("it is a redirect, and redirects are not followed; correct the base URL")]
    Redirect,
    /// Neither success, redirect nor error.
    #[error("its status has no meaning here")]
    UnknownStatus,
    /// More bytes than the contract file allows.
    #[error("it is larger than {limit} bytes")]
    TooLarge {
        /// The contract file's `bodyBytes`.
        limit: usize,
    },
    /// Compressed, though the request asked for an uncompressed answer. Nothing is decompressed: a few bytes may expand
    /// to any number.
    #[error(
        "it is compressed, which the request does not allow (Accept-Encoding: identity); have what stands \
         before the service leave its answers as they are"
    )]
    Compressed,
    /// Not JSON.
    #[error("it is not JSON")]
    NotJson(#[source] serde_json::Error),
    /// No runId at the contract file's pointers.
    #[error("it names no runId")]
    NoRunId,
    /// A runId that can't be used.
    #[error("its runId can't be used")]
    IllegalRunId(#[source] RunIdError),
    /// The runId repeats the token, and would bring it into URLs (rule 7).
    #[error("its runId repeats the token")]
    TokenInRunId,
    /// The workspace's identity repeats the token. With the token removed it would be the same for every workspace and
    /// no longer detect a mistake (rules 4 and 7).
    #[error(
        "its identity of the workspace repeats the token; correct the contract file's pointers to it"
    )]
    TokenInIdentity,
    /// Another run than the requested one.
    #[error("it names another runId than the one asked for")]
    OtherRunId,
    /// Not `text/event-stream`.
    #[error("it is no event stream")]
    NotEventStream,
}

impl CallError {
    pub(super) fn unreadable(head: &Head, reason: UnreadableReason) -> Self {
        Self::Unreadable {
            status: head.status.as_u16(),
            request_id: head.request_id.clone(),
            reason,
        }
    }

    pub(super) fn body(head: &Head, source: BodyError) -> Self {
        Self::ReadBody {
            status: head.status.as_u16(),
            request_id: head.request_id.clone(),
            source,
        }
    }

    /// Error of sending, by its cause; the URL, which reqwest keeps, is dropped.
    pub(super) fn send(error: reqwest::Error) -> Self {
        let error = error.without_url();
        if error.is_builder() {
            Self::BuildRequest(error.into())
        } else if error.is_connect() {
            Self::Connect(error)
        } else {
            Self::Exchange(error)
        }
    }

    /// Kind of the failure.
    pub fn kind(&self) -> FailureKind {
        match self {
            E::BuildRequest(_) => FailureKind::NotSent,
            E::Connect(error) if no_file(error) => FailureKind::NoFile,
            E::Connect(_) | E::Exchange(_) | E::AwaitAnswer { .. } | E::ReadBody { .. } => {
                FailureKind::NoAnswer
            }
            E::Problem(_) | E::Bare(_) => FailureKind::Answered,
            E::Unreadable { .. } => FailureKind::Unreadable,
        }
    }

    /// The HTTP status, if there was an answer.
    pub fn http_status(&self) -> Option<u16> {
        match self {
            E::BuildRequest(_) | E::Connect(_) | E::Exchange(_) | E::AwaitAnswer { .. } => None,
            E::ReadBody { status, .. } | E::Unreadable { status, .. } => Some(*status),
            E::Problem(problem) => Some(problem.status),
            E::Bare(bare) => Some(bare.status),
        }
    }

    /// The request's id, if an answer named it (rule 11).
    pub fn request_id(&self) -> Option<&str> {
        match self {
            E::BuildRequest(_) | E::Connect(_) | E::Exchange(_) | E::AwaitAnswer { .. } => None,
            E::ReadBody { request_id, .. } | E::Unreadable { request_id, .. } => {
                request_id.as_deref()
            }
            E::Problem(problem) => problem.request_id.as_deref(),
            E::Bare(bare) => bare.request_id.as_deref(),
        }
    }

    /// The problem, if there is one (rule 8).
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            E::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// The answer's `Retry-After`, unclamped.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            E::Problem(problem) => problem.retry_after,
            E::Bare(bare) => bare.retry_after,
            _ => None,
        }
    }
}

/// Whether a connection failed because this process, or the machine, may open no more files.
fn no_file(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .filter_map(io::Error::raw_os_error)
        .any(|code| NO_FILE.contains(&code))
}

impl From<&CallError> for Failure {
    fn from(error: &CallError) -> Self {
        let problem = error.problem();
        let message = match problem.and_then(|p| p.title.as_deref()) {
            Some(title) => one_line(title, MESSAGE_BYTES),
            None => with_causes(error),
        };
        Self {
            kind: error.kind(),
            http_status: error.http_status(),
            code: problem.map(|p| p.code.clone()),
            request_id: error.request_id().map(str::to_owned),
            retryable: problem.and_then(|p| p.retryable),
            retry_after: error.retry_after(),
            message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("no connection")]
    struct Outer(#[source] io::Error);

    #[test]
    fn a_connection_that_lacks_a_file_is_known_by_its_cause() {
        let caused_by = |code| Outer(io::Error::from_raw_os_error(code));
        for code in NO_FILE {
            assert!(no_file(&caused_by(code)), "{code}");
            assert!(no_file(&io::Error::from_raw_os_error(code)), "{code}");
        }
        // Refused.
        assert!(!no_file(&caused_by(111)));
        assert!(!no_file(&Outer(io::Error::other("no code"))));
    }

    /// Each lookup of a name fails with this error of the system.
    struct NoName(i32);

    impl reqwest::dns::Resolve for NoName {
        fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
            let error = io::Error::from_raw_os_error(self.0);
            Box::pin(async move { Err(error.into()) })
        }
    }

    #[tokio::test]
    async fn a_call_that_gets_no_file_is_told_from_one_without_an_answer() {
        // Another test may have chosen it first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kind = async |code| {
            let client = reqwest::Client::builder()
                .no_proxy()
                .tls_certs_only([])
                .dns_resolver(NoName(code))
                .build()
                .unwrap();
            let call = client.get("http://service.example").send();
            CallError::send(call.await.unwrap_err()).kind()
        };
        for code in NO_FILE {
            assert_eq!(kind(code).await, FailureKind::NoFile, "{code}");
        }
        assert_eq!(kind(111).await, FailureKind::NoAnswer);
    }
}
