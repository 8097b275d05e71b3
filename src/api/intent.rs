//! The intent: the record of a Run's POST, written into the object before the first POST.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::{
    Reason, RunDefaults, names,
    status::{Phase, ResolvedWorkspace},
};

/// The record that precedes every POST. It counts only if its `uid` is the Run's own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    pub uid: String,
    pub workspace: ResolvedWorkspace,
    /// The Workspace's defaults, for the Run's status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_defaults: Option<RunDefaults>,
    /// The idempotency key (rule 1).
    pub key: String,
    /// SHA-256 of the body, hexadecimal.
    pub sha256: String,
    pub serializer: u32,
    /// Time at which the first POST of this key became possible; `keyRetention` counts from it.
    pub time: Timestamp,
    /// The only process that may POST.
    pub owner: String,
    /// Counts takeovers and retries. A refusal belongs to one epoch only.
    pub epoch: i64,
    /// The retry annotation's value that began this epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
    /// The end of the Run; a lost status is rebuilt from it without a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", from = "StoredEnd")]
pub struct End {
    /// The service's identifier; absent if the Run ended without a run.
    #[serde(rename = "runID", default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    pub phase: Phase,
    pub reason: Reason,
}

/// The end as stored, perhaps by a later version, whose reasons may be more.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredEnd {
    #[serde(rename = "runID")]
    run_id: Option<String>,
    phase: Phase,
    reason: String,
}

impl From<StoredEnd> for End {
    fn from(stored: StoredEnd) -> Self {
        let reason = Reason::named(&stored.reason).unwrap_or(stored.phase.reason());
        Self {
            run_id: stored.run_id,
            phase: stored.phase,
            reason,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntentRecord {
    /// No annotation: no POST was ever made for this object, unless it was removed by an edit.
    Absent,
    Own(Box<Intent>),
    /// Written for another uid: a restored backup or a copied manifest.
    Foreign,
    /// Made unreadable by an edit.
    Unreadable,
}

impl IntentRecord {
    pub fn own(self) -> Option<Intent> {
        match self {
            Self::Own(intent) => Some(*intent),
            Self::Absent | Self::Foreign | Self::Unreadable => None,
        }
    }

    pub fn of(metadata: &ObjectMeta) -> Self {
        let annotations = metadata.annotations.as_ref();
        let text = annotations.and_then(|a| a.get(names::INTENT_ANNOTATION));
        let uid = metadata.uid.as_deref().unwrap_or_default();
        Self::read(text.map(String::as_str), uid)
    }

    pub fn read(annotation: Option<&str>, uid: &str) -> Self {
        let Some(text) = annotation else {
            return Self::Absent;
        };
        match serde_json::from_str::<Intent>(text) {
            Ok(intent) if intent.uid == uid => Self::Own(Box::new(intent)),
            Ok(_) => Self::Foreign,
            Err(_) => {
                // An intent of a later version of the operator is still recognised as foreign.
                let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
                match value["uid"].as_str() {
                    Some(other) if other != uid => Self::Foreign,
                    _ => Self::Unreadable,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Proves: I-upgrade
    #[test]
    fn an_end_of_a_later_version_keeps_its_phase() {
        for (phase, reason) in [
            (Phase::Succeeded, Reason::Succeeded),
            (Phase::Failed, Reason::Failed),
            (Phase::Cancelled, Reason::Cancelled),
        ] {
            let stored = json!({"phase": phase, "reason": "OfALaterVersion", "laterField": 1});
            let end: End = serde_json::from_value(stored).unwrap();
            assert_eq!((end.phase, end.reason), (phase, reason));
        }
    }
}
