//! The state of the service, and requests on their way to it.

use std::sync::Arc;

use run_operator::decide::failure;

/// The service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Service {
    pub(crate) runs: Vec<ServiceRun>,
    pub(crate) keys: Vec<Key>,
    /// It refuses these bytes for good.
    pub(crate) refuses: bool,
}

/// A place at the service: identity and base URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Home {
    /// Whom the token acts for.
    pub(crate) identity: u8,
    /// The other base URL.
    pub(crate) moved: bool,
}

/// The service's memory of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(
    clippy::struct_field_names,
    reason = "it is what the header calls the key, of what the service keeps for one"
)]
pub(crate) struct Key {
    pub(crate) home: Home,
    pub(crate) key: Arc<str>,
    pub(crate) bytes: u64,
    /// `None`: the request is being worked on.
    pub(crate) run: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ServiceRun {
    /// The object that it was first made for.
    pub(crate) uid: u8,
    pub(crate) home: Home,
    /// The states it went through; the last is in force. Each is an event.
    pub(crate) passed: Vec<RunState>,
    /// Time when the cancellation in progress was accepted, as far as any process knows.
    pub(crate) accepted: Option<i64>,
    /// The object whose cancel began its cancellation.
    pub(crate) cancelled_for: Option<u8>,
    /// The service has lost it.
    pub(crate) lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RunState {
    Running,
    Cancelling,
    Succeeded,
    Failed,
    Cancelled,
}

impl RunState {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Cancelling => "cancelling",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub(crate) fn ended(self) -> bool {
        !matches!(self, Self::Running | Self::Cancelling)
    }
}

impl ServiceRun {
    pub(crate) fn state(&self) -> RunState {
        self.passed.last().copied().unwrap_or(RunState::Running)
    }

    pub(crate) fn live(&self) -> bool {
        !self.state().ended() && !self.lost
    }
}

/// A request to the service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Packet {
    pub(crate) uid: u8,
    /// The process that waits for the answer.
    pub(crate) caller: Option<u8>,
    pub(crate) call: Call,
    pub(crate) token: u8,
    pub(crate) session: u8,
    /// It is sent to the other base URL.
    pub(crate) moved: bool,
    /// The service works on it.
    pub(crate) begun: bool,
    /// The network sent it twice.
    pub(crate) doubled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Call {
    Create { key: Arc<str>, bytes: u64 },
    Get(usize),
    Cancel(usize),
}

impl Call {
    pub(crate) fn kind(&self) -> failure::Call {
        match self {
            Self::Create { .. } => failure::Call::Create,
            Self::Get(_) => failure::Call::Get,
            Self::Cancel(_) => failure::Call::Cancel,
        }
    }
}
