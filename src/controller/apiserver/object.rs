//! One object, decoded separately and in parts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::api::GetParams;
use kube::core::{PartialObjectMeta, Request};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::api::{
    ClusterWorkspace, Run, RunSchedule, RunSpec, RunStatus, RunTemplate, Workspace, names,
};

/// Annotation in which kubectl keeps a copy of the whole object. It is not used here.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[derive(Clone)]
pub enum Maybe<K> {
    Good(Arc<K>),
    /// Only its metadata can be read.
    Bad(Arc<BadObject>),
}

#[derive(Clone, Debug)]
pub struct BadObject {
    /// Which part, and where. Never its content, which is the user's.
    pub error: String,
    pub metadata: ObjectMeta,
}

impl<K> Maybe<K> {
    pub fn good(&self) -> Option<&Arc<K>> {
        match self {
            Self::Good(object) => Some(object),
            Self::Bad(_) => None,
        }
    }
}

/// Its content is the user's, and in no log.
impl<K: Resource<DynamicType = ()> + Clone> fmt::Debug for Maybe<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.meta().name.as_deref().unwrap_or_default();
        write!(f, "{} {name}", K::kind(&()))
    }
}

impl<K: Resource + Clone> Resource for Maybe<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &K::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &K::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Good(object) => object.meta(),
            Self::Bad(bad) => &bad.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Good(object) => Arc::make_mut(object).meta_mut(),
            Self::Bad(bad) => &mut Arc::make_mut(bad).metadata,
        }
    }
}

/// The object with this name in one of the stores; the namespace of a cluster-scoped one is empty.
pub fn find<K>(stores: &[Store<Maybe<K>>], namespace: &str, name: &str) -> Option<Arc<Maybe<K>>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let object = ObjectRef::new(name);
    let object = match namespace {
        "" => object,
        namespace => object.within(namespace),
    };
    stores.iter().find_map(|store| store.get(&object))
}

pub trait Object: Resource<DynamicType = ()> + Clone + Send + Sync + 'static {
    /// Takes the metadata only if the other parts can be decoded; the error names the one that can't.
    fn from_parts(metadata: &mut ObjectMeta, parts: &Parts<'_>) -> Result<Self, Undecodable>;
}

#[derive(Default, Deserialize)]
pub struct Parts<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    /// Of a Secret.
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    /// Bytes of the whole object.
    #[serde(skip)]
    size: usize,
}

#[derive(Debug, thiserror::Error)]
#[error("its {part} can't be decoded: {what} at byte {at} of {size}")]
pub struct Undecodable {
    part: &'static str,
    what: &'static str,
    at: usize,
    size: usize,
}

impl Parts<'_> {
    pub fn spec<T: DeserializeOwned>(&self) -> Result<T, Undecodable> {
        let missing = Undecodable {
            part: "spec",
            what: "nothing",
            at: 0,
            size: 0,
        };
        part("spec", self.spec.ok_or(missing)?)
    }

    pub fn status<T: DeserializeOwned>(&self) -> Result<Option<T>, Undecodable> {
        self.status.map(|raw| part("status", raw)).transpose()
    }

    pub fn data(&self) -> Result<BTreeMap<String, &RawValue>, Undecodable> {
        self.data
            .map_or(Ok(BTreeMap::new()), |raw| part("data", raw))
    }
}

pub fn part<'a, T: Deserialize<'a>>(
    name: &'static str,
    raw: &'a RawValue,
) -> Result<T, Undecodable> {
    serde_json::from_str(raw.get()).map_err(|error| Undecodable::new(name, raw, &error))
}

impl Undecodable {
    fn new(part: &'static str, raw: &RawValue, error: &serde_json::Error) -> Self {
        let lines = raw.get().split_inclusive('\n');
        let before: usize = lines
            .take(error.line().saturating_sub(1))
            .map(str::len)
            .sum();
        let what = match error.classify() {
            serde_json::error::Category::Data => "a value of another type",
            serde_json::error::Category::Eof => "an early end",
            serde_json::error::Category::Io | serde_json::error::Category::Syntax => "a mistake",
        };
        Self {
            part,
            what,
            at: before + error.column(),
            size: raw.get().len(),
        }
    }
}

/// Without kubectl's copy of the object. Of `managedFields`, which may be as deep and as large as the object, only the
/// names of the other managers.
fn metadata_of(raw: &RawValue) -> Result<ObjectMeta, Undecodable> {
    let unreadable = |error| Undecodable::new("metadata", raw, &error);
    let mut fields: BTreeMap<String, &RawValue> = part("metadata", raw)?;
    let managed = fields.remove("managedFields");
    let kept = serde_json::to_string(&fields).map_err(unreadable)?;
    let mut metadata: ObjectMeta = serde_json::from_str(&kept).map_err(unreadable)?;
    // The key stays: otherwise a write would assume that there are no annotations, and replace them all.
    let annotations = metadata.annotations.as_mut();
    if let Some(copy) = annotations.and_then(|all| all.get_mut(LAST_APPLIED)) {
        *copy = String::new();
    }
    metadata.managed_fields = managed.map(other_managers).transpose()?;
    Ok(metadata)
}

fn other_managers(raw: &RawValue) -> Result<Vec<ManagedFieldsEntry>, Undecodable> {
    #[derive(Deserialize)]
    struct Entry {
        manager: Option<String>,
    }
    let mut entries: Vec<Entry> = part("metadata.managedFields", raw)?;
    entries.retain(|entry| entry.manager.as_deref() != Some(names::FIELD_MANAGER));
    let named = |Entry { manager }| ManagedFieldsEntry {
        manager,
        ..ManagedFieldsEntry::default()
    };
    Ok(entries.into_iter().map(named).collect())
}

/// Decodes one item; none makes this an error, so that it can't fail the line or the page that it is a part of.
impl<'de, K: Object> Deserialize<'de> for Maybe<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let item = Box::<RawValue>::deserialize(from)?;
        Ok(decode(&item))
    }
}

/// Decodes one item. One whose metadata can't be read has no name: nothing is known of it but, if possible, its version.
pub fn decode<K: Object>(item: &RawValue) -> Maybe<K> {
    let bad = |metadata, error: &Undecodable| {
        let error = error.to_string();
        Maybe::Bad(Arc::new(BadObject { error, metadata }))
    };
    let (parts, mut metadata) = match outline(item) {
        Ok(read) => read,
        Err(error) => return bad(version_of(item), &error),
    };
    match K::from_parts(&mut metadata, &parts) {
        Ok(object) => Maybe::Good(Arc::new(object)),
        Err(error) => bad(metadata, &error),
    }
}

pub fn outline(item: &RawValue) -> Result<(Parts<'_>, ObjectMeta), Undecodable> {
    let mut parts: Parts<'_> = serde_json::from_str(item.get())
        .map_err(|error| Undecodable::new("outline", item, &error))?;
    parts.size = item.get().len();
    let metadata = match parts.metadata {
        Some(raw) => metadata_of(raw)?,
        None => ObjectMeta::default(),
    };
    if metadata.name.is_none() {
        return Err(Undecodable {
            part: "metadata",
            what: "no name",
            at: 0,
            size: item.get().len(),
        });
    }
    Ok((parts, metadata))
}

/// Metadata with nothing but the version, by which a watch goes on.
fn version_of(item: &RawValue) -> ObjectMeta {
    let parts: Parts<'_> = serde_json::from_str(item.get()).unwrap_or_default();
    let fields = parts.metadata.and_then(|raw| part("metadata", raw).ok());
    let fields: BTreeMap<String, &RawValue> = fields.unwrap_or_default();
    let version = fields.get("resourceVersion");
    ObjectMeta {
        resource_version: version.and_then(|raw| serde_json::from_str(raw.get()).ok()),
        ..ObjectMeta::default()
    }
}

pub type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// The text of the answer to a request. kube's own calls decode the whole object, and log what they can't decode.
pub async fn request_text(client: &Client, request: Built) -> kube::Result<String> {
    let request = request.map_err(kube::Error::BuildRequest)?;
    client.request_text(request).await
}

pub async fn read_status<K: Object, S: DeserializeOwned + Default>(
    api: &Api<K>,
    name: &str,
) -> kube::Result<Option<(ObjectMeta, S)>> {
    let request = Request::new(api.resource_url()).get(name, &GetParams::default());
    let text = request_text(&api.clone().into_client(), request).await?;
    let raw: &RawValue = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
    let read = outline(raw).and_then(|(parts, metadata)| Ok((metadata, parts.status()?)));
    let read = read.ok();
    Ok(read.map(|(metadata, status)| (metadata, status.unwrap_or_default())))
}

impl Object for Run {
    fn from_parts(metadata: &mut ObjectMeta, parts: &Parts<'_>) -> Result<Self, Undecodable> {
        let mut status = parts.status::<RunStatus>()?;
        if let Some(status) = &mut status {
            // Kept for as long as the Run is active: read one by one, it has room for more.
            status.conditions.shrink_to_fit();
            status.events.shrink_to_fit();
        }
        let spec = RunSpec {
            object_bytes: parts.size,
            ..parts.spec()?
        };
        Ok(Self {
            spec,
            status,
            metadata: std::mem::take(metadata),
        })
    }
}

impl Object for Workspace {
    fn from_parts(metadata: &mut ObjectMeta, parts: &Parts<'_>) -> Result<Self, Undecodable> {
        Ok(Self {
            spec: parts.spec()?,
            status: parts.status()?,
            metadata: std::mem::take(metadata),
        })
    }
}

impl Object for ClusterWorkspace {
    fn from_parts(metadata: &mut ObjectMeta, parts: &Parts<'_>) -> Result<Self, Undecodable> {
        Ok(Self {
            spec: parts.spec()?,
            status: parts.status()?,
            metadata: std::mem::take(metadata),
        })
    }
}

impl Object for RunSchedule {
    fn from_parts(metadata: &mut ObjectMeta, parts: &Parts<'_>) -> Result<Self, Undecodable> {
        Ok(Self {
            spec: parts.spec()?,
            status: parts.status()?,
            metadata: std::mem::take(metadata),
        })
    }
}

impl Object for RunTemplate {
    fn from_parts(metadata: &mut ObjectMeta, parts: &Parts<'_>) -> Result<Self, Undecodable> {
        Ok(Self {
            spec: parts.spec()?,
            metadata: std::mem::take(metadata),
        })
    }
}

impl<K> Object for PartialObjectMeta<K>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    fn from_parts(metadata: &mut ObjectMeta, _: &Parts<'_>) -> Result<Self, Undecodable> {
        Ok(Self {
            types: None,
            metadata: std::mem::take(metadata),
            _phantom: std::marker::PhantomData,
        })
    }
}

#[cfg(test)]
mod tests {
    use kube::{Resource, ResourceExt};

    use super::*;

    fn decoded(text: &str) -> Maybe<Run> {
        serde_json::from_str(text).unwrap()
    }

    fn nested(levels: usize) -> String {
        format!(
            "{}{}",
            r#"{"f:a":"#.repeat(levels),
            format_args!("{{}}{}", "}".repeat(levels))
        )
    }

    /// Proves: P-ttl
    #[test]
    fn a_deep_workload_is_no_obstacle_and_of_deep_managed_fields_the_managers_are_kept() {
        let managed = |manager| format!(r#"{{"manager":"{manager}","fieldsV1":{}}}"#, nested(5000));
        let text = format!(
            r#"{{"metadata":{{"name":"train","uid":"u","managedFields":[{},{}]}},"spec":{{"workload":{{"image":"i","a":{}}}}}}}"#,
            managed("kubectl"),
            managed(names::FIELD_MANAGER),
            nested(5000)
        );
        let run = decoded(&text).good().cloned().unwrap();
        assert_eq!(run.name_any(), "train");
        let entries = run.metadata.managed_fields.as_ref().unwrap();
        let managers: Vec<_> = entries.iter().map(|e| e.manager.as_deref()).collect();
        assert_eq!(managers, [Some("kubectl")]);
        assert!(run.spec.workload.as_str().len() > 30_000);
        assert_eq!(run.spec.object_bytes, text.len(), "what is dropped counts");
    }

    /// Proves: F-undecodable
    #[test]
    fn a_bad_item_is_located_by_name_and_byte_without_its_content() {
        let run = decoded(
            r#"{"metadata":{"name":"train"},"spec":{"workload":{"image":"i"},"suspend":"hunter2"}}"#,
        );
        let Maybe::Bad(invalid) = run else {
            panic!("{run:?}");
        };
        assert_eq!(invalid.metadata.name.as_deref(), Some("train"));
        assert!(
            invalid
                .error
                .starts_with("its spec can't be decoded: a value of another type at byte")
        );
        assert!(!invalid.error.contains("hunter2"));
    }

    #[test]
    fn the_last_applied_annotation_is_kept_without_its_value() {
        let text = format!(
            r#"{{"metadata":{{"name":"a","annotations":{{"{LAST_APPLIED}":"{{}}","a":"b"}}}},"spec":{{"workload":{{}}}}}}"#
        );
        let run = decoded(&text).good().cloned().unwrap();
        assert_eq!(run.annotations()[LAST_APPLIED], "");
        assert_eq!(run.annotations()["a"], "b");
    }

    /// Proves: F-undecodable
    #[test]
    fn an_item_without_readable_metadata_has_no_name() {
        for text in ["[]", r#"{"metadata":[]}"#, r#"{"metadata":{"name":1}}"#] {
            let run = decoded(text);
            assert!(run.good().is_none() && run.meta().name.is_none(), "{text}");
        }
    }
}
