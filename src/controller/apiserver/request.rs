//! Writes. Their answers are decoded like list items.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, GetParams};
use kube::core::Request;
use kube::{Api, Client};
use serde::de::{DeserializeOwned, Error as _};
use serde_json::value::RawValue;

use super::object::{Object, decode, status_of};

/// Sends a request that is answered with the object. If the answer can't be decoded the object was still written:
/// [`kube::Error::SerdeError`].
pub async fn send<K: Object>(client: Client, request: http::Request<Vec<u8>>) -> kube::Result<K> {
    let text = client.request_text(request).await?;
    let raw: &RawValue = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
    let unreadable = |why: String| kube::Error::SerdeError(serde_json::Error::custom(why));
    let object = decode::<K>(raw).map_err(|error| unreadable(error.to_string()))?;
    object.0.map_err(|invalid| unreadable(invalid.error))
}

/// Deletes an object. The body of a success is not read.
pub async fn delete(
    client: Client,
    url: &str,
    name: &str,
    params: &DeleteParams,
) -> kube::Result<()> {
    let request = Request::new(url)
        .delete(name, params)
        .map_err(kube::Error::BuildRequest)?;
    client.request_text(request).await.map(drop)
}

/// Reads the metadata and the status of an object whose spec can't be decoded; `None` if these can't be decoded either.
pub async fn read_status<K: Object, S: DeserializeOwned + Default>(
    api: &Api<K>,
    name: &str,
) -> kube::Result<Option<(ObjectMeta, S)>> {
    let request = Request::new(api.resource_url())
        .get(name, &GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    let text = api.clone().into_client().request_text(request).await?;
    let raw: &RawValue = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
    Ok(status_of(raw))
}
