//! What a call to the service gives, as plain data: a run or a failure; and what a failure means, by rules 8, 9 and 10.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{
    Contract, Reason,
    conditions::whole_seconds,
    contract::{CodeClass, RunDetails},
    limits::{MAX_CODE, MAX_REQUEST_ID},
    status::LastError,
};

use super::delays::RETRY_AFTER_OF_A_PROXY;
use super::truncate::{MAX_ERROR, MAX_QUOTE, cut};

/// Consecutive failed GETs that are not worth a write: a restart of the service is over by then.
const SILENT_FAILURES: u32 = 2;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunView {
    pub run_id: Option<String>,
    /// The derived state, verbatim, if the answer names one.
    pub state: Option<String>,
    /// The `X-Request-ID` of the answer (rule 11).
    pub request_id: Option<String>,
    /// What it says beside, if the contract file names any of it.
    pub details: Option<Box<RunDetails>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Refused by the client itself: nothing was sent.
    NotSent,
    /// This process may open no more files: nothing was sent, and the service is not the cause.
    NoFile,
    /// No answer: connection refused or cut, timeout. Proves nothing about the request's outcome.
    NoAnswer,
    /// An error status. With a code it is the service's problem document (rule 8), else it may be a proxy's page.
    Answered,
    /// A 2xx or 3xx that can't be read by the contract.
    Unreadable,
}

/// A failed call. All fields may be shown to people: they hold no token and no body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    pub http_status: Option<u16>,
    /// The problem's code (rule 8); each problem has one.
    pub code: Option<String>,
    /// The request's id: `X-Request-ID`, else the problem's `requestId` (rule 11).
    pub request_id: Option<String>,
    /// The problem's `retryable` (rule 10).
    pub retryable: Option<bool>,
    /// The answer's `Retry-After`, unclamped.
    pub retry_after: Option<Duration>,
    /// Description for a person: the problem's title, or the transport's error. Never branched on.
    pub message: String,
}

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            http_status: None,
            code: None,
            request_id: None,
            retryable: None,
            retry_after: None,
            message: message.into(),
        }
    }

    pub(crate) fn sentence(&self) -> String {
        let detail = cut(&self.message, MAX_QUOTE);
        let status = self.http_status.unwrap_or_default();
        let mut sentence = match (self.kind, &self.code) {
            (FailureKind::NotSent, _) => format!("The request was not sent: {detail}"),
            (FailureKind::NoFile, _) => {
                "The request was not sent: the operator has reached its limit of open files; raise the limit or lower --max-streams."
                    .to_owned()
            }
            (FailureKind::NoAnswer, _) => format!("The service gave no answer: {detail}"),
            (FailureKind::Answered, Some(code)) => {
                format!("The service answered {status} {}: {detail}", cut(code, MAX_CODE))
            }
            (FailureKind::Answered, None) => {
                format!("The service answered {status} without a problem body: {detail}")
            }
            (FailureKind::Unreadable, _) => format!("The service's answer can't be read: {detail}"),
        };
        if !sentence.ends_with('.') {
            sentence.push('.');
        }
        match &self.request_id {
            Some(id) => format!("{sentence} Request id {}.", cut(id, 128)),
            None => sentence,
        }
    }

    fn code(&self) -> &str {
        let own = match self.kind {
            FailureKind::NotSent => "not_sent",
            FailureKind::NoFile => "no_file",
            FailureKind::NoAnswer => "no_answer",
            FailureKind::Answered => "no_problem_body",
            FailureKind::Unreadable => "unreadable_answer",
        };
        self.code.as_deref().unwrap_or(own)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// `POST /runs`.
    Create,
    /// `GET /runs/{runId}`, and opening its event stream.
    Get,
    /// `POST /runs/{runId}:cancel`.
    Cancel,
    /// `GET /version`, for a Workspace's check.
    Version,
    /// `GET /workspaces/current`, for a Workspace's check.
    Workspace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Refused by the client itself: a person must change something.
    NotSent,
    NoFile,
    /// No answer, or a proxy's 5xx but 501: the service may be down.
    NoAnswer,
    /// Any other answer of a proxy; a problem 408, 425 or 5xx, unless it says `retryable: false` (rule 10).
    Passing,
    /// 429, unless a problem says `retryable: false` (rule 10).
    TooMany,
    /// The service still works on an earlier create with this key.
    InProgress,
    /// 401, whoever says it. No Run fails for an expired token: its Workspace handles it.
    Unauthorized,
    Unreadable,
    /// Any other problem: an answer that stays until a person changes something (rule 10).
    Refused(Reason),
}

/// Classifies a failure by its status and code, never by its title (rule 8).
pub fn classify(call: Call, failure: &Failure, contract: &Contract) -> Class {
    match failure.kind {
        FailureKind::NotSent => Class::NotSent,
        FailureKind::NoFile => Class::NoFile,
        FailureKind::NoAnswer => Class::NoAnswer,
        FailureKind::Unreadable => Class::Unreadable,
        FailureKind::Answered => {
            let status = failure.http_status.unwrap_or_default();
            match &failure.code {
                Some(code) => by_problem(call, failure, code, contract),
                // It may be a proxy's, so it proves nothing about the request.
                None => match status {
                    401 => Class::Unauthorized,
                    429 => Class::TooMany,
                    // 501: it answers, and can't do this.
                    500 | 502..=599 => Class::NoAnswer,
                    _ => Class::Passing,
                },
            }
        }
    }
}

fn by_problem(call: Call, failure: &Failure, code: &str, contract: &Contract) -> Class {
    let status = failure.http_status.unwrap_or_default();
    let code = contract.code(code);
    let hopeless = failure.retryable == Some(false);
    Class::Refused(match status {
        401 => return Class::Unauthorized,
        429 if !hopeless => return Class::TooMany,
        408 | 425 | 500..=599 if !hopeless => return Class::Passing,
        500..=599 => Reason::ServerError,
        403 => Reason::Forbidden,
        409 => match code {
            CodeClass::ApprovalConflict => Reason::ApprovalConflict,
            CodeClass::VersionConflict => Reason::VersionConflict,
            CodeClass::IdempotencyConflict => Reason::IdempotencyConflict,
            CodeClass::IdempotencyInProgress if call == Call::Create => return Class::InProgress,
            CodeClass::IdempotencyInProgress | CodeClass::RunNotFound | CodeClass::Unknown => {
                Reason::UnknownConflict
            }
        },
        404 if matches!(call, Call::Get | Call::Cancel) && code == CodeClass::RunNotFound => {
            Reason::RunNotFound
        }
        _ if call == Call::Create && contract.refuses_create(status) => Reason::CreateRefused,
        _ => Reason::Refused,
    })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capacity {
    /// Nothing: the call was not sent, or failed for another reason.
    #[default]
    Unknown,
    Served,
    Lost,
    /// 429 (rule 10), with its `Retry-After`, unclamped.
    TooMany(Option<Duration>),
}

impl Capacity {
    pub fn after(failed: Option<&FailedCall>) -> Self {
        failed.map_or(Self::Served, FailedCall::capacity)
    }
}

/// Reason to check a Workspace before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeTrigger {
    Unauthorized,
    Outage,
}

impl Class {
    /// The reason for a person, if the call was refused: by the service, or by the client itself.
    pub fn refusal(self) -> Option<Reason> {
        match self {
            Self::NotSent => Some(Reason::Refused),
            Self::Refused(reason) => Some(reason),
            _ => None,
        }
    }

    /// Whether the cause may be gone at the next attempt, without an edit.
    pub fn may_pass(self) -> bool {
        matches!(self.refusal(), None | Some(Reason::ServerError))
    }

    pub fn recheck(self) -> Option<ProbeTrigger> {
        match self {
            Self::NoAnswer => Some(ProbeTrigger::Outage),
            Self::Unauthorized => Some(ProbeTrigger::Unauthorized),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCall {
    pub call: Call,
    pub class: Class,
    pub failure: Failure,
}

impl FailedCall {
    pub fn new(call: Call, failure: Failure, contract: &Contract) -> Self {
        Self {
            call,
            class: classify(call, &failure, contract),
            failure,
        }
    }

    /// Reason to show: in a Run while the call is made again, in a Workspace whose check failed.
    pub fn reason(&self) -> Reason {
        use Call::{Cancel, Create, Get, Version, Workspace};
        match (self.call, self.class) {
            (Create, Class::InProgress) => Reason::SubmissionInProgress,
            (Cancel, Class::NotSent | Class::Refused(_)) => Reason::CancelRefused,
            (Create | Get | Cancel, Class::TooMany) => Reason::RateLimited,
            (Create | Cancel, _) => Reason::Retrying,
            (Get | Workspace, Class::Unauthorized) => Reason::Unauthorized,
            (_, Class::Unreadable) => Reason::ContractViolation,
            (Get, Class::NotSent) => Reason::Refused,
            (Get, Class::Refused(reason)) => reason,
            (Workspace, Class::Refused(Reason::Forbidden)) => Reason::WorkspaceMismatch,
            (Version | Workspace, Class::Passing | Class::Refused(_))
                if self.failure.http_status == Some(404) =>
            {
                Reason::ContractViolation
            }
            (Get | Version | Workspace, _) => Reason::ServiceUnavailable,
        }
    }

    pub(crate) fn last_error(&self, attempts: u32, wall: Timestamp) -> LastError {
        let failure = &self.failure;
        let request_id = failure.request_id.as_deref();
        LastError {
            code: cut(failure.code(), MAX_CODE).to_owned(),
            http_status: failure.http_status.map(i32::from),
            request_id: request_id.map(|id| cut(id, MAX_REQUEST_ID).to_owned()),
            retryable: failure.retryable.unwrap_or(self.is_repeated()),
            message: cut(&failure.message, MAX_ERROR).to_owned(),
            time: whole_seconds(wall),
            attempts: i64::from(attempts),
            next_attempt_time: None,
        }
    }

    /// The answer's `Retry-After`: at most 30 s if it may be a proxy's, but for a 429 and for a create, whose Run shows it.
    pub fn retry_after(&self) -> Option<Duration> {
        let perhaps_a_proxy = self.failure.code.is_none() && self.class != Class::TooMany;
        let asked = self.failure.retry_after?;
        if perhaps_a_proxy && self.call != Call::Create {
            Some(asked.min(RETRY_AFTER_OF_A_PROXY))
        } else {
            Some(asked)
        }
    }

    /// What it tells about the service's capacity: a 5xx nothing, and a 429 with `retryable: false` only that it answers.
    pub fn capacity(&self) -> Capacity {
        let problem = self.failure.code.is_some();
        match (self.class, self.failure.http_status) {
            (Class::NoAnswer, _) => Capacity::Lost,
            (Class::TooMany, _) => Capacity::TooMany(self.failure.retry_after),
            (Class::Unauthorized, _) => Capacity::Unknown,
            (_, Some(400..=499)) if problem => Capacity::Served,
            _ => Capacity::Unknown,
        }
    }

    /// Whether the call is made again without a person: all but a refused create (rule 10).
    pub fn is_repeated(&self) -> bool {
        self.call != Call::Create || self.class.refusal().is_none()
    }

    /// Whether the next read waits for its time even if an event hints at a change.
    pub fn delays_hints(&self) -> bool {
        matches!(self.failure.http_status, Some(401 | 429)) || self.failure.retry_after.is_some()
    }

    /// Whether the answer to a create proves that this request made no run: a 4xx problem, but for 408 (given up), 425
    /// (deferred) and a conflict of keys, in which another request may have made one.
    pub fn proves_not_created(&self) -> bool {
        let refuses = |status| (400..500).contains(&status) && ![408, 425].contains(&status);
        let conflict = matches!(
            self.class,
            Class::InProgress | Class::Refused(Reason::IdempotencyConflict)
        );
        let problem = self.failure.code.is_some();
        problem && self.failure.http_status.is_some_and(refuses) && !conflict
    }

    /// Whether it proves that no create with these bytes ever made a run, or will: the contract file calls it final.
    pub fn refuses_the_bytes(&self) -> bool {
        self.class == Class::Refused(Reason::CreateRefused)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFailures {
    pub last: FailedCall,
    pub count: u32,
    /// By process time.
    pub at: Timestamp,
    pub wall: Timestamp,
    /// Earliest next attempt by backoff and the answer's `Retry-After`, by process time.
    pub next: Timestamp,
    /// The Workspace session that the call used.
    pub session: u64,
}

impl CallFailures {
    /// A first 401 is repeated at once, with another token. Later ones back off: a verified token may be refused.
    pub fn repeats_at_once(&self) -> bool {
        self.last.class == Class::Unauthorized && self.count <= 1
    }

    /// Repeated at the interval of the polls, from `--poll-min`: another replica may know a run that this one denies.
    pub fn repeats_at_polls(&self) -> bool {
        let unreadable = self.last.class == Class::Unreadable && self.last.call == Call::Get;
        unreadable || self.last.class.refusal().is_some()
    }

    /// Whether a GET failed and the next most likely succeeds. After a first 401 the Workspace shows the token's error.
    pub fn passing(&self) -> bool {
        let worth = match self.last.class {
            Class::NoFile | Class::NoAnswer | Class::Passing | Class::TooMany => SILENT_FAILURES,
            Class::Unauthorized => 1,
            Class::NotSent | Class::InProgress | Class::Unreadable | Class::Refused(_) => 0,
        };
        self.last.call == Call::Get && self.count <= worth
    }
}
