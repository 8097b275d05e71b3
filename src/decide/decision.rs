//! What a decision gives, and the change of an object's metadata as data: simulated API servers apply it, too.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::{Intent, Run, RunStatus, finalizer, intent::End, names};

use super::{events::EventDraft, failure::Call};

#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// The next status; the controller writes it before the effect, if it differs.
    pub status: Option<RunStatus>,
    pub effect: Option<Effect>,
    /// By process time, if nothing happens before. When the wall clock has stepped, a caller that waits decides again.
    pub requeue_at: Option<Timestamp>,
    pub follow: Follow,
    /// Number of this process's events that the status shows.
    pub shown: usize,
    /// Kubernetes Events to publish after the write, each name once.
    pub events: Vec<EventDraft>,
    /// It could be submitted now, as far as its own state goes: it needs a slot of its Workspace.
    pub wants_slot: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    #[default]
    Keep,
    Open,
    /// The run has ended: it should be read until the service closes it.
    Finish,
    Close,
}

/// One effect. One on the object is guarded by uid and resourceVersion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    clippy::large_enum_variant,
    reason = "one effect a decision, moved once: a box would buy nothing"
)]
pub enum Effect {
    /// Write the intent and the finalizer in one patch.
    WriteIntent {
        intent: Box<Intent>,
        /// False if the object is being deleted: it takes none.
        finalizer: bool,
        /// No POST before it can have made a run.
        clean: bool,
    },
    Submit {
        key: String,
        body: Vec<u8>,
    },
    Refresh {
        run_id: String,
    },
    Cancel {
        run_id: String,
    },
    /// Remove the finalizer; if the object stays, the intent keeps the end of the Run.
    Release {
        end: Option<End>,
    },
    Delete,
}

impl Effect {
    pub fn name(&self) -> &'static str {
        match self {
            Self::WriteIntent { .. } => "write intent",
            Self::Submit { .. } => "submit",
            Self::Refresh { .. } => "refresh",
            Self::Cancel { .. } => "cancel",
            Self::Release { .. } => "release",
            Self::Delete => "delete",
        }
    }

    pub fn call(&self) -> Option<Call> {
        match self {
            Self::Submit { .. } => Some(Call::Create),
            Self::Refresh { .. } => Some(Call::Get),
            Self::Cancel { .. } => Some(Call::Cancel),
            Self::WriteIntent { .. } | Self::Release { .. } | Self::Delete => None,
        }
    }

    pub fn metadata_change(&self, run: &Run) -> serde_json::Result<Option<MetadataChange>> {
        match self {
            Self::WriteIntent {
                intent, finalizer, ..
            } => MetadataChange::write_intent(run, intent, *finalizer).map(Some),
            Self::Release { end } => MetadataChange::release(run, end.as_ref()).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether it claims the idempotency key: only a first intent does, a repair or a takeover already has it.
    pub fn claims_key(&self) -> bool {
        matches!(self, Self::WriteIntent { intent, clean: true, .. } if intent.epoch == 1)
    }
}

impl Decision {
    /// The status to write before the effect, if it differs from the stored one. None is written for a deleted object.
    pub fn status_due(&self, run: &Run, deleted: bool) -> Option<&RunStatus> {
        let wanted = self.status.as_ref().filter(|_| !deleted);
        wanted.filter(|status| run.status.as_ref() != Some(*status))
    }

    /// The Events to publish. For a deleted object, only those of its release.
    pub fn events_due(&self, deleted: bool) -> &[EventDraft] {
        let released = matches!(self.effect, Some(Effect::Release { .. }));
        if deleted && !released {
            return &[];
        }
        &self.events
    }

    pub fn quiet() -> Self {
        Self::default()
    }

    pub(crate) fn act(effect: Effect) -> Self {
        Self {
            effect: Some(effect),
            ..Self::quiet()
        }
    }

    pub(crate) fn write(status: RunStatus) -> Self {
        Self {
            status: Some(status),
            ..Self::quiet()
        }
    }

    pub(crate) fn wants_slot(self, wants_slot: bool) -> Self {
        Self { wants_slot, ..self }
    }

    pub(crate) fn requeue_at(self, at: impl Into<Option<Timestamp>>) -> Self {
        Self {
            requeue_at: at.into(),
            ..self
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MetadataChange {
    pub intent: Option<String>,
    /// All finalizers, if they change.
    pub finalizers: Option<Vec<String>>,
}

impl MetadataChange {
    pub fn write_intent(run: &Run, intent: &Intent, finalizer: bool) -> serde_json::Result<Self> {
        let meta = &run.metadata;
        let missing = finalizer && !finalizer::present(meta);
        Ok(Self {
            intent: Some(serde_json::to_string(intent)?),
            finalizers: missing.then(|| finalizer::with(meta, true)),
        })
    }

    pub fn release(run: &Run, end: Option<&End>) -> serde_json::Result<Self> {
        let kept = end.zip(run.intent_record().own()).map(|(end, intent)| {
            serde_json::to_string(&Intent {
                end: Some(end.clone()),
                ..intent
            })
        });
        Ok(Self {
            intent: kept.transpose()?,
            ..Self::finalizer(&run.metadata, false)
        })
    }

    pub fn finalizer(meta: &ObjectMeta, on: bool) -> Self {
        Self {
            intent: None,
            finalizers: Some(finalizer::with(meta, on)),
        }
    }

    /// Whether it deletes the object: one that is being deleted keeps no finalizer.
    pub fn deletes(&self, meta: &ObjectMeta) -> bool {
        meta.deletion_timestamp.is_some() && self.finalizers.as_ref().is_some_and(Vec::is_empty)
    }

    /// Applies it as the API server does, which stores no empty list.
    pub fn apply(&self, meta: &mut ObjectMeta) {
        if let Some(text) = &self.intent {
            let annotations = meta.annotations.get_or_insert_default();
            annotations.insert(names::INTENT_ANNOTATION.to_owned(), text.clone());
        }
        if let Some(all) = &self.finalizers {
            meta.finalizers = Some(all.clone()).filter(|all| !all.is_empty());
        }
    }
}
