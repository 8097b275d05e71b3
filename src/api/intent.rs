//! The intent: what a Run's POST will be, written into the object before the first POST.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::status::{Phase, ResolvedWorkspace};

/// The record that precedes every POST. It is never authority: it counts only if its `uid` is the
/// Run's own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// The Run that this intent was written for.
    pub uid: String,
    /// Where the run is submitted.
    pub workspace: ResolvedWorkspace,
    /// The idempotency key (rule 1).
    pub key: String,
    /// SHA-256 of the body, hexadecimal.
    pub sha256: String,
    /// The version of the serializer that makes the body.
    pub serializer: u32,
    /// When the first POST of this key became possible; `keyRetention` counts from here.
    pub time: Timestamp,
    /// The process that alone may POST.
    pub owner: String,
    /// Counts takeovers and retries. A refusal speaks of one epoch only.
    pub epoch: i64,
    /// The retry annotation's value that this epoch serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
    /// What is left once the Run has ended; a lost status is rebuilt from it without a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

/// How a Run ended.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// The service's identifier; absent when the Run ended without a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The terminal phase.
    pub phase: Phase,
    /// The reason of the Finished condition.
    pub reason: super::Reason,
}

/// The annotation as it stands on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntentRecord {
    /// No annotation: no POST was ever made for this object, unless somebody took it off.
    Absent,
    /// Written for this very object.
    Own(Box<Intent>),
    /// Written for another uid: a restored backup or a copied manifest.
    Foreign,
    /// Not readable: edited by somebody.
    Unreadable,
}

impl IntentRecord {
    /// The intent, if it was written for this object.
    pub fn own(self) -> Option<Intent> {
        match self {
            Self::Own(intent) => Some(*intent),
            Self::Absent | Self::Foreign | Self::Unreadable => None,
        }
    }

    /// Reads an annotation's text for the object `uid`.
    pub fn read(annotation: Option<&str>, uid: &str) -> Self {
        let Some(text) = annotation else {
            return Self::Absent;
        };
        match serde_json::from_str::<Intent>(text) {
            Ok(intent) if intent.uid == uid => Self::Own(Box::new(intent)),
            Ok(_) => Self::Foreign,
            Err(_) => match serde_json::from_str::<serde_json::Value>(text) {
                // An intent of a later version of the operator is still recognised as foreign.
                Ok(value)
                    if value
                        .get("uid")
                        .and_then(|u| u.as_str())
                        .is_some_and(|u| u != uid) =>
                {
                    Self::Foreign
                }
                _ => Self::Unreadable,
            },
        }
    }
}
