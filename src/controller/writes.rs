//! The writes to a Run or a Workspace. Each is guarded by uid and resourceVersion, so that neither a stale view nor a
//! same-name recreation can be written over, nor be removed in its stead.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::Request,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::api::{Intent, Run, names};
use crate::controller::chain;
use crate::decide::Effect;

use super::apiserver::{self, Object};

/// A write that takes longer is given up: kube's client has no read timeout of its own.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How a write failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object changed meanwhile: observe again.
    #[error("the object changed meanwhile")]
    Conflict,
    /// The object, with this uid, is gone.
    #[error("the object is gone")]
    Gone,
    /// The API server refused what was written: its schema or a policy.
    #[error("failed to write the object: the API server refused it")]
    Refused(#[source] kube::Error),
    /// Anything else: worth another try.
    #[error("failed to write the object")]
    Failed(#[source] kube::Error),
    /// No answer in time.
    #[error("failed to write the object within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// The intent can't be serialised.
    #[error("failed to serialise the object's intent")]
    Serialize(#[source] serde_json::Error),
}

impl WriteError {
    /// Whether what was written may stand all the same.
    pub fn fate_unknown(&self) -> bool {
        match self {
            Self::Failed(_) | Self::Timeout => true,
            Self::Conflict | Self::Gone | Self::Refused(_) | Self::Serialize(_) => false,
        }
    }
}

/// Writes finalizer and intent in one patch.
pub async fn write_intent(
    api: &Api<Run>,
    run: &Run,
    intent: &Intent,
    finalizer: bool,
) -> Result<Run, WriteError> {
    let mut patch = guards(&run.metadata);
    patch.push(intent_op(run, intent)?);
    if finalizer && !held(run) {
        patch.push(finalizer_op(run, true));
    }
    send(api, run, patch).await
}

/// Takes the finalizer off; the intent keeps how the Run ended.
pub async fn release(
    api: &Api<Run>,
    run: &Run,
    intent: Option<&Intent>,
) -> Result<Run, WriteError> {
    let kept = intent.map(|intent| intent_op(run, intent)).transpose()?;
    take_off(api, run, kept).await
}

/// Puts the finalizer on an object, or takes it off.
pub async fn write_finalizer<K>(api: &Api<K>, object: &K, on: bool) -> Result<K, WriteError>
where
    K: Object + Serialize,
{
    if !on {
        return take_off(api, object, None).await;
    }
    let mut patch = guards(object.meta());
    patch.push(finalizer_op(object, true));
    send(api, object, patch).await
}

/// Takes the finalizer off. What is written beside it is of no use to an object that goes by that.
///
/// Where the API server refuses the PUT by which one goes, for rights from before it was made or a schema that the
/// object no longer fits, a patch may do: an object that hangs would be worse.
async fn take_off<K>(api: &Api<K>, object: &K, beside: Option<Value>) -> Result<K, WriteError>
where
    K: Object + Serialize,
{
    if goes(object) {
        match let_go(api, object).await {
            Err(WriteError::Refused(error)) => {
                tracing::warn!(error = %chain(&error), "failed to let an object go by its uid; by a patch then");
            }
            written => return written,
        }
    }
    let mut patch = guards(object.meta());
    patch.extend(beside);
    patch.push(finalizer_op(object, false));
    send(api, object, patch).await
}

/// Whether an object goes with the operator's finalizer: it is being deleted, and no other holds it.
fn goes(object: &impl Resource) -> bool {
    let mut finalizers = object.finalizers().iter();
    object.meta().deletion_timestamp.is_some() && finalizers.all(|f| f == names::FINALIZER)
}

/// Takes the last finalizer off an object that is being deleted, by which it goes. Not by a patch: of two that are
/// under way at the same time, one of them doubled or another process's, the later would remove whatever has the
/// name by then, and be it the next object. The API server removes by name, and of the guards it takes a PUT's uid
/// along, of a patch none. What this version doesn't know of the object is not lost by that: it goes.
async fn let_go<K>(api: &Api<K>, object: &K) -> Result<K, WriteError>
where
    K: Object + Serialize,
{
    let mut last = object.clone();
    last.meta_mut().finalizers = None;
    let params = PostParams {
        field_manager: params().field_manager,
        ..PostParams::default()
    };
    let data = serde_json::to_vec(&last).map_err(WriteError::Serialize)?;
    let request = Request::new(api.resource_url()).replace(&object.name_any(), &params, data);
    answered(api, request).await
}

/// Whether an object has the finalizer.
pub fn held(object: &impl Resource) -> bool {
    object.finalizers().iter().any(|f| f == names::FINALIZER)
}

fn finalizer_op(object: &impl Resource, on: bool) -> Value {
    let others = object.finalizers().iter().map(String::as_str);
    let others = others.filter(|f| *f != names::FINALIZER);
    let all: Vec<&str> = others.chain(on.then_some(names::FINALIZER)).collect();
    json!({"op": "add", "path": "/metadata/finalizers", "value": all})
}

/// Writes the whole status of a Run or a Workspace.
pub async fn write_status<K>(
    api: &Api<K>,
    object: &K,
    status: &impl Serialize,
) -> Result<K, WriteError>
where
    K: Object + Serialize,
{
    let request = status_request(api, object.meta(), status)?;
    bounded(apiserver::send(api.clone().into_client(), request)).await
}

/// Writes the whole status of an object of which only the metadata is known.
pub async fn write_status_of<K: Object>(
    api: &Api<K>,
    meta: &ObjectMeta,
    status: &impl Serialize,
) -> Result<(), WriteError> {
    let request = status_request(api, meta, status)?;
    bounded(api.clone().into_client().request_text(request))
        .await
        .map(drop)
}

/// The guarded patch of a whole status.
fn status_request<K: Object>(
    api: &Api<K>,
    meta: &ObjectMeta,
    status: &impl Serialize,
) -> Result<http::Request<Vec<u8>>, WriteError> {
    let mut patch = guards(meta);
    patch.push(json!({"op": "add", "path": "/status", "value": status}));
    let patch = Patch::Json::<()>(to_patch(patch)?);
    let name = meta.name.as_deref().unwrap_or_default();
    Request::new(api.resource_url())
        .patch_subresource("status", name, &params(), &patch)
        .map_err(|error| WriteError::Failed(kube::Error::BuildRequest(error)))
}

/// Deletes the object.
pub async fn delete(api: &Api<Run>, run: &Run) -> Result<(), WriteError> {
    let preconditions = Preconditions {
        uid: run.uid(),
        resource_version: run.resource_version(),
    };
    let params = DeleteParams {
        preconditions: Some(preconditions),
        ..DeleteParams::default()
    };
    let client = api.clone().into_client();
    bounded(apiserver::delete(
        client,
        api.resource_url(),
        &run.name_any(),
        &params,
    ))
    .await
}

/// The effect's name, for logs.
pub fn effect_name(effect: &Effect) -> &'static str {
    match effect {
        Effect::WriteIntent { .. } => "write intent",
        Effect::Submit { .. } => "submit",
        Effect::Refresh { .. } => "refresh",
        Effect::Cancel { .. } => "cancel",
        Effect::Release { .. } => "release",
        Effect::Delete => "delete",
    }
}

/// A failed `test` is a bare 422, while replacing the resourceVersion by the one that was read gives a
/// proper 409. The uid is tested first: resourceVersions of different objects can't be mixed up, but a
/// guard that is read is a guard that stays.
fn guards(meta: &ObjectMeta) -> Vec<Value> {
    vec![
        json!({"op": "replace", "path": "/metadata/uid", "value": meta.uid}),
        json!({"op": "replace", "path": "/metadata/resourceVersion", "value": meta.resource_version}),
    ]
}

fn intent_op(run: &Run, intent: &Intent) -> Result<Value, WriteError> {
    let text = serde_json::to_string(intent).map_err(WriteError::Serialize)?;
    if run.metadata.annotations.is_none() {
        let value = json!({names::INTENT_ANNOTATION: text});
        return Ok(json!({"op": "add", "path": "/metadata/annotations", "value": value}));
    }
    let path = format!(
        "/metadata/annotations/{}",
        names::INTENT_ANNOTATION.replace('/', "~1")
    );
    Ok(json!({"op": "add", "path": path, "value": text}))
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(names::FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

fn to_patch(ops: Vec<Value>) -> Result<json_patch::Patch, WriteError> {
    serde_json::from_value(Value::Array(ops)).map_err(WriteError::Serialize)
}

async fn send<K>(api: &Api<K>, object: &K, ops: Vec<Value>) -> Result<K, WriteError>
where
    K: Object,
{
    let patch = to_patch(ops)?;
    let patch = Patch::Json::<()>(patch);
    let request = Request::new(api.resource_url()).patch(&object.name_any(), &params(), &patch);
    answered(api, request).await
}

/// Sends a write that is answered by the object.
async fn answered<K: Object>(
    api: &Api<K>,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<K, WriteError> {
    let client = api.clone().into_client();
    let request = request.map_err(|error| WriteError::Failed(kube::Error::BuildRequest(error)))?;
    bounded(apiserver::send(client, request)).await
}

pub(super) async fn bounded<T>(
    write: impl Future<Output = kube::Result<T>>,
) -> Result<T, WriteError> {
    match tokio::time::timeout(TIMEOUT, write).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(classify(error)),
        Err(_) => Err(WriteError::Timeout),
    }
}

fn classify(error: kube::Error) -> WriteError {
    match &error {
        kube::Error::Api(status) => match status.code {
            409 => WriteError::Conflict,
            404 => WriteError::Gone,
            400 | 403 | 422 => WriteError::Refused(error),
            _ => WriteError::Failed(error),
        },
        _ => WriteError::Failed(error),
    }
}
