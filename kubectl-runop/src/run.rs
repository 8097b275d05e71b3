//! A Run as the API server sent it. One that this version can't read is still a Run: it is listed, and printed whole.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use run_operator::api::{Run, RunSpec, RunStatus, names};
use run_operator::decide::explain::Stored;

/// A Run: its text, and what can be read of it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) metadata: ObjectMeta,
    pub(super) spec: Option<RunSpec>,
    pub(super) status: Option<RunStatus>,
    /// Why spec or status can't be read.
    pub(super) unreadable: Option<String>,
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

impl Seen {
    pub(super) fn from_text(text: &str) -> Result<Self, serde_json::Error> {
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
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Its kind and name, as `kubectl -o name` prints them.
    pub(super) fn reference(&self) -> String {
        format!("run.{}/{}", names::GROUP, self.name())
    }

    pub(super) fn stored(&self) -> Stored<'_> {
        Stored {
            meta: &self.metadata,
            spec: self.spec.as_ref(),
            status: self.status.as_ref(),
        }
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

impl<'de> Deserialize<'de> for Seen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_text(raw.get()).map_err(D::Error::custom)
    }
}

impl Serialize for Seen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.text).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl Resource for Seen {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Run::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Run::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Run::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Run::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
