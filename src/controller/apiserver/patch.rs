//! The writes to a Run or a Workspace. Each is guarded by uid and resourceVersion. A write from a stale view is
//! refused, and an object of the same name that was created later is never overwritten or removed.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::{Request, Status},
};
use serde::Serialize;
use serde::de::Error as _;
use serde_json::{Value, json, value::RawValue};

use crate::api::{Run, names};
use crate::decide::MetadataChange;
use crate::util::error_chain;

use super::object::{Built, Maybe, Object, decode, request_text};

/// Time limit of a write: kube's client has no read timeout of its own.
const TIMEOUT: Duration = Duration::from_secs(30);

/// One version of an object: enough to find it, and to delete it and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectVersion {
    pub uid: Arc<str>,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub version: Arc<str>,
}

impl ObjectVersion {
    pub fn of(meta: &ObjectMeta) -> Self {
        let text = |text: &Option<String>| Arc::from(text.as_deref().unwrap_or_default());
        Self {
            uid: text(&meta.uid),
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            version: text(&meta.resource_version),
        }
    }

    pub fn metadata(&self) -> ObjectMeta {
        let text = |text: &Arc<str>| Some(text.to_string());
        ObjectMeta {
            uid: text(&self.uid),
            namespace: text(&self.namespace),
            name: text(&self.name),
            resource_version: text(&self.version),
            ..ObjectMeta::default()
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("the object changed meanwhile")]
    Conflict,
    #[error("the object no longer exists")]
    Gone,
    #[error("failed to write the object: the API server refused it")]
    Refused(#[source] kube::Error),
    /// A retry may succeed.
    #[error("failed to write the object")]
    Failed(#[source] kube::Error),
    #[error("failed to write the object within {} s", TIMEOUT.as_secs())]
    Timeout,
    #[error("failed to serialise the object's intent")]
    Serialize(#[source] serde_json::Error),
}

/// Failures in a row from which an API server that answers with an error counts as refusing the write.
const LASTING: u32 = 3;

impl WriteError {
    /// The API server's answer, if it refuses the write: for good, or at the `times`th attempt in a row with an error that
    /// might have passed, as of a webhook that can't be called.
    pub fn refusal(&self, times: u32) -> Option<&Status> {
        match self {
            Self::Refused(kube::Error::Api(status)) => Some(&**status),
            // Not of an API server that is down or overloaded.
            Self::Failed(kube::Error::Api(status)) if times >= LASTING => {
                Some(&**status).filter(|status| !matches!(status.code, 429 | 503 | 504))
            }
            _ => None,
        }
    }

    /// Whether the write certainly had no effect.
    pub fn not_written(&self) -> bool {
        match self {
            Self::Gone | Self::Refused(_) | Self::Serialize(_) => true,
            Self::Conflict | Self::Failed(_) | Self::Timeout => false,
        }
    }
}

pub async fn write_finalizer<K>(api: &Api<K>, object: &K, on: bool) -> Result<Arc<K>, WriteError>
where
    K: Object + Serialize,
{
    write_metadata(api, object, &MetadataChange::finalizer(object.meta(), on)).await
}

/// One that deletes the object is a PUT, without the intent. If that is refused (an older role, a schema that the object
/// doesn't fit), a patch: an object that can't be deleted would be worse.
pub async fn write_metadata<K>(
    api: &Api<K>,
    object: &K,
    change: &MetadataChange,
) -> Result<Arc<K>, WriteError>
where
    K: Object + Serialize,
{
    let meta = object.meta();
    if change.deletes(meta) {
        match remove_last_finalizer(api, object).await {
            Err(WriteError::Refused(error)) => {
                tracing::warn!(
                    k8s.namespace.name = meta.namespace.as_deref(), k8s.name = meta.name.as_deref(),
                    error = %error_chain(&error), "failed to remove the last finalizer by a PUT with the uid; trying a patch"
                );
            }
            written => return written,
        }
    }
    let intent = change.intent.as_ref();
    let intent = intent.map(|text| intent_change(meta, text));
    let finalizers = change.finalizers.as_ref();
    let finalizers = finalizers.map(|all| ("/metadata/finalizers".to_owned(), json!(all)));
    let patch = guarded(meta, intent.into_iter().chain(finalizers))?;
    let request = Request::new(api.resource_url()).patch(
        &object.name_any(),
        &PatchParams::apply(names::FIELD_MANAGER),
        &patch,
    );
    answered(api, request).await
}

/// By a PUT: the API server removes by name, and heeds a PUT's uid but no guard of a patch. Of two patches in flight the
/// later would remove any object that has the name by then.
async fn remove_last_finalizer<K>(api: &Api<K>, object: &K) -> Result<Arc<K>, WriteError>
where
    K: Object + Serialize,
{
    let mut last = object.clone();
    last.meta_mut().finalizers = None;
    // Their names alone are no valid entries; without any, the API server keeps its own.
    last.meta_mut().managed_fields = None;
    let params = PostParams {
        field_manager: Some(names::FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let data = serde_json::to_vec(&last).map_err(WriteError::Serialize)?;
    let request = Request::new(api.resource_url()).replace(&object.name_any(), &params, data);
    answered(api, request).await
}

pub async fn write_status<K: Object>(
    api: &Api<K>,
    object: &K,
    status: &impl Serialize,
) -> Result<Arc<K>, WriteError> {
    written(&send_status(api, object.meta(), status).await?)
}

/// Writes the whole status of an object of which only the metadata are known. Returns the text of the answer.
pub async fn send_status<K: Object>(
    api: &Api<K>,
    meta: &ObjectMeta,
    status: &impl Serialize,
) -> Result<String, WriteError> {
    let status = serde_json::to_value(status).map_err(WriteError::Serialize)?;
    let patch = guarded(meta, [("/status".to_owned(), status)])?;
    let name = meta.name.as_deref().unwrap_or_default();
    let params = PatchParams::apply(names::FIELD_MANAGER);
    let request = Request::new(api.resource_url());
    send(
        api,
        request.patch_subresource("status", name, &params, &patch),
    )
    .await
}

/// Creates an object as it is written. `trial`: has it checked, and not stored. [`WriteError::Conflict`]: its name is
/// taken.
pub async fn create<K: Object>(
    api: &Api<K>,
    manifest: &impl Serialize,
    trial: bool,
) -> Result<Maybe<K>, WriteError> {
    let params = PostParams {
        dry_run: trial,
        field_manager: Some(names::FIELD_MANAGER.to_owned()),
    };
    let data = serde_json::to_vec(manifest).map_err(WriteError::Serialize)?;
    let request = Request::new(api.resource_url()).create(&params, data);
    let answer = send(api, request).await?;
    let created = serde_json::from_str::<&RawValue>(&answer).map(decode::<K>);
    created.map_err(|error| WriteError::Failed(kube::Error::SerdeError(error)))
}

/// Sets `cancel: true`.
pub async fn cancel(api: &Api<Run>, object: &ObjectVersion) -> Result<(), WriteError> {
    let patch = guarded(
        &object.metadata(),
        [("/spec/cancel".to_owned(), json!(true))],
    )?;
    let params = PatchParams::apply(names::FIELD_MANAGER);
    let request = Request::new(api.resource_url()).patch(&object.name, &params, &patch);
    send(api, request).await.map(drop)
}

pub async fn delete(api: &Api<Run>, object: &ObjectVersion) -> Result<(), WriteError> {
    let preconditions = Preconditions {
        uid: Some(object.uid.to_string()),
        resource_version: Some(object.version.to_string()),
    };
    let params = DeleteParams::default().preconditions(preconditions);
    let request = Request::new(api.resource_url()).delete(&object.name, &params);
    send(api, request).await.map(drop)
}

/// Guards by replacing uid and resourceVersion with what was read: a proper 409, where a failed `test` gives a bare 422.
fn guarded(
    meta: &ObjectMeta,
    changes: impl IntoIterator<Item = (String, Value)>,
) -> Result<Patch<()>, WriteError> {
    let guard = |path, value| json!({"op": "replace", "path": path, "value": value});
    let mut operations = vec![
        guard("/metadata/uid", &meta.uid),
        guard("/metadata/resourceVersion", &meta.resource_version),
    ];
    let added = |(path, value)| json!({"op": "add", "path": path, "value": value});
    operations.extend(changes.into_iter().map(added));
    let patch = serde_json::from_value(Value::Array(operations)).map_err(WriteError::Serialize)?;
    Ok(Patch::Json(patch))
}

/// Path and value of the intent's annotation. Where there are no annotations, all of them: a patch adds no parent.
fn intent_change(meta: &ObjectMeta, text: &str) -> (String, Value) {
    let (all, name) = ("/metadata/annotations", names::INTENT_ANNOTATION);
    if meta.annotations.is_none() {
        return (all.to_owned(), json!({ name: text }));
    }
    (format!("{all}/{}", name.replace('/', "~1")), json!(text))
}

/// Sends a write that is answered with the object. One whose answer can't be decoded may have been carried out.
async fn answered<K: Object>(api: &Api<K>, request: Built) -> Result<Arc<K>, WriteError> {
    written(&send(api, request).await?)
}

fn written<K: Object>(answer: &str) -> Result<Arc<K>, WriteError> {
    let written = serde_json::from_str::<&RawValue>(answer).map(decode::<K>);
    let unreadable = match written {
        Ok(Maybe::Good(object)) => return Ok(object),
        Ok(Maybe::Bad(bad)) => serde_json::Error::custom(&bad.error),
        Err(error) => error,
    };
    Err(WriteError::Failed(kube::Error::SerdeError(unreadable)))
}

async fn send<K: Object>(api: &Api<K>, request: Built) -> Result<String, WriteError> {
    bounded(request_text(&api.clone().into_client(), request)).await
}

pub(crate) async fn bounded<T>(
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
            400 | 403 | 413 | 422 => WriteError::Refused(error),
            // etcd's own limit, which the API server answers with a 500.
            _ if status.message.contains("request is too large") => WriteError::Refused(error),
            _ => WriteError::Failed(error),
        },
        _ => WriteError::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered_by(code: u16) -> WriteError {
        let status = Status::failure("no", "").with_code(code);
        classify(kube::Error::Api(Box::new(status)))
    }

    /// Proves: P-key-in-use
    #[test]
    fn a_refused_write_is_not_written_but_a_conflicting_one_may_be() {
        for code in [400, 403, 404, 422] {
            assert!(answered_by(code).not_written(), "{code}");
        }
        // After a 504 a PATCH is sent again, and may conflict with its own first copy.
        for code in [409, 429, 500, 504] {
            assert!(!answered_by(code).not_written(), "{code}");
        }
        assert!(!WriteError::Timeout.not_written());
    }

    #[test]
    fn an_object_that_is_too_large_is_refused_whatever_the_status() {
        let too_large = |message| {
            let status = Status::failure(message, "").with_code(500);
            classify(kube::Error::Api(Box::new(status))).not_written()
        };
        assert!(too_large("etcdserver: request is too large"));
        assert!(!too_large("etcdserver: request timed out"));
        assert!(answered_by(413).not_written());
    }

    #[test]
    fn an_answer_with_an_error_is_a_refusal_if_it_lasts() {
        let refuses = |code, times| answered_by(code).refusal(times).is_some();
        assert!(refuses(403, 1) && refuses(500, 3));
        assert!(!refuses(500, 2));
        for code in [404, 409, 429, 503, 504] {
            assert!(!refuses(code, 3), "{code}");
        }
        assert!(WriteError::Timeout.refusal(3).is_none());
    }
}
