//! A Run as the API server sent it. One that this version can't read is still a Run: it is listed, and printed whole.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::Resource;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use run_operator::api::intent::IntentRecord;
use run_operator::api::{
    ConditionType, Intent, Phase, Reason, RunSpec, RunStatus, conditions, names,
};

/// A Run: its text, and what can be read of it.
#[derive(Clone, Debug, Default, Resource)]
#[resource(inherit = "run_operator::api::Run")]
pub(crate) struct Run {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Option<RunSpec>,
    pub(crate) status: Option<RunStatus>,
    /// Why spec or status can't be read.
    pub(crate) unreadable: Option<String>,
    text: Arc<str>,
}

/// The parts of an object, each of which may be unreadable on its own.
#[derive(Deserialize)]
struct Parts {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Option<Box<RawValue>>,
    #[serde(default)]
    status: Option<Box<RawValue>>,
}

impl Run {
    pub(crate) fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        let parts: Parts = serde_json::from_str(text)?;
        let mut unreadable = None;
        Ok(Self {
            spec: read(parts.spec.as_deref(), "spec", &mut unreadable),
            status: read(parts.status.as_deref(), "status", &mut unreadable),
            metadata: parts.metadata,
            unreadable,
            text: text.into(),
        })
    }

    /// The object as JSON, as it came.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Its kind and name, as `kubectl -o name` prints them.
    pub(crate) fn reference(&self) -> String {
        format!("run.{}/{}", names::GROUP, self.name())
    }

    /// The intent of this object.
    pub(crate) fn intent(&self) -> Option<Intent> {
        IntentRecord::of(&self.metadata).own()
    }

    /// The object as the operator reads it; none if it can't.
    pub(crate) fn whole(&self) -> Option<run_operator::api::Run> {
        let spec = self.spec.as_ref().filter(|_| self.unreadable.is_none())?;
        Some(run_operator::api::Run {
            metadata: self.metadata.clone(),
            spec: spec.clone(),
            status: self.status.clone(),
        })
    }

    /// The controller that runs it, if that is another one than this operator.
    pub(crate) fn manager(&self) -> Option<&str> {
        let spec = self.spec.as_ref();
        let spec = spec.filter(|spec| spec.managed_elsewhere())?;
        spec.managed_by.as_deref()
    }

    /// The phase; none before the operator's first write.
    pub(crate) fn phase(&self) -> Option<Phase> {
        let status = self.status.as_ref();
        status.filter(|status| status.is_observed())?.phase
    }

    pub(crate) fn is(&self, kind: ConditionType) -> bool {
        let status = self.status.as_ref();
        status.is_some_and(|status| conditions::is_true(&status.conditions, kind))
    }

    pub(crate) fn ended(&self) -> bool {
        self.is(ConditionType::Finished)
    }

    pub(crate) fn is_stalled(&self) -> bool {
        self.is(ConditionType::Stalled)
    }

    /// The condition to show first: Stalled=True, else Synced=False while it runs, else Ready.
    pub(crate) fn condition(&self) -> Option<&Condition> {
        let found = |kind| conditions::find(&self.status.as_ref()?.conditions, kind);
        let stalled = found(ConditionType::Stalled).filter(|c| c.status == "True");
        let synced = found(ConditionType::Synced).filter(|c| c.status == "False" && !self.ended());
        stalled.or(synced).or_else(|| found(ConditionType::Ready))
    }

    /// The reason of that condition, if this version knows it.
    pub(crate) fn reason(&self) -> Option<Reason> {
        Reason::named(&self.condition()?.reason)
    }
}

fn read<T: for<'de> Deserialize<'de>>(
    raw: Option<&RawValue>,
    part: &str,
    unreadable: &mut Option<String>,
) -> Option<T> {
    match serde_json::from_str(raw?.get()) {
        Ok(value) => Some(value),
        Err(error) => {
            unreadable.get_or_insert_with(|| format!("its {part} can't be read: {error}"));
            None
        }
    }
}

impl<'de> Deserialize<'de> for Run {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_text(raw.get()).map_err(D::Error::custom)
    }
}
