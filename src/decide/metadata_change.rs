//! Changes of an object's metadata as plain data. The controller sends them as guarded patches; simulated API servers
//! apply them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::{Intent, Run, finalizer, intent::End, names};

/// A change of an object's metadata.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MetadataChange {
    /// Text of the intent's annotation, if it is written.
    pub intent: Option<String>,
    /// All finalizers, if they change.
    pub finalizers: Option<Vec<String>>,
}

impl MetadataChange {
    /// Writes the intent and, if `finalizer` is set and it is missing, the finalizer.
    pub fn write_intent(run: &Run, intent: &Intent, finalizer: bool) -> serde_json::Result<Self> {
        let meta = &run.metadata;
        let missing = finalizer && !finalizer::present(meta);
        Ok(Self {
            intent: Some(serde_json::to_string(intent)?),
            finalizers: missing.then(|| finalizer::with(meta, true)),
        })
    }

    /// Removes the finalizer. The intent, if the object has its own, keeps the Run's end.
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

    /// Adds or removes the finalizer.
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
