//! Reads of Secrets: one entry, or only the metadata.
//!
//! kube's reads decode the whole object and log the text of what they can't decode, which here would be the token. No
//! error of this module contains any of the text.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::GetParams;
use kube::core::{PartialObjectMeta, Request};
use kube::{Api, Client, Resource};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;

use super::object::{Maybe, Object, decode, part};

/// One entry of a Secret.
pub struct Entry {
    /// The version of the whole Secret.
    pub version: Option<String>,
    /// The entry's value, if the Secret has it.
    pub value: Option<Vec<u8>>,
}

/// The parts of a Secret as text; the metadata are decoded like those of any object.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

/// Reads one entry of a Secret; `None` if the Secret doesn't exist.
pub async fn read_entry(api: &Api<Secret>, name: &str, entry: &str) -> kube::Result<Option<Entry>> {
    let request = Request::new(api.resource_url()).get(name, &GetParams::default());
    let text = found(api.clone().into_client(), request).await?;
    text.map(|text| entry_of(&text, entry)).transpose()
}

/// Reads the metadata of an object; `None` if it doesn't exist.
pub async fn read_metadata<K>(api: &Api<K>, name: &str) -> kube::Result<Option<ObjectMeta>>
where
    K: Resource + Clone,
    PartialObjectMeta<K>: Object,
{
    let request = Request::new(api.resource_url()).get_metadata(name, &GetParams::default());
    let text = found(api.clone().into_client(), request).await?;
    text.map(|text| metadata_of::<K>(&text)).transpose()
}

/// The text of the answer; `None` if the object doesn't exist.
async fn found(
    client: Client,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> kube::Result<Option<String>> {
    let request = request.map_err(kube::Error::BuildRequest)?;
    match client.request_text(request).await {
        Ok(text) => Ok(Some(text)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

fn entry_of(text: &str, entry: &str) -> kube::Result<Entry> {
    let metadata = metadata_of::<Secret>(text)?;
    let object = outline(text)?;
    let parts: Parts<'_> = part("outline", object).map_err(unreadable)?;
    let data = parts.data.filter(|data| data.get() != "null");
    let data: BTreeMap<String, &RawValue> = data
        .map(|data| part("data", data))
        .transpose()
        .map_err(unreadable)?
        .unwrap_or_default();
    let value = data.get(entry).map(|raw| part::<ByteString>("data", raw));
    Ok(Entry {
        version: metadata.resource_version,
        value: value.transpose().map_err(unreadable)?.map(|value| value.0),
    })
}

fn metadata_of<K>(text: &str) -> kube::Result<ObjectMeta>
where
    K: Resource,
    PartialObjectMeta<K>: Object,
{
    match decode::<PartialObjectMeta<K>>(outline(text)?) {
        Maybe::Good(object) => Ok(object.metadata.clone()),
        Maybe::Bad(bad) => Err(unreadable(&bad.error)),
    }
}

/// The answer as raw JSON. Other errors in it name only a position.
fn outline(text: &str) -> kube::Result<&RawValue> {
    serde_json::from_str(text).map_err(kube::Error::SerdeError)
}

fn unreadable(error: impl fmt::Display) -> kube::Error {
    kube::Error::SerdeError(serde_json::Error::custom(error))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::controller::apiserver::{answer, loopback};

    /// Values that no error may contain: the token, and its form in the Secret.
    const TOKEN: &str = "canary-51c7";
    const STORED: &str = "Y2FuYXJ5LTUxYzc=";

    fn secret(metadata: &str, data: &str) -> String {
        format!(
            r#"{{"kind":"Secret","metadata":{{"name":"token","resourceVersion":"7"{metadata}}},"data":{data}}}"#
        )
    }

    fn api(answer: String) -> Api<Secret> {
        Api::namespaced(loopback(vec![answer]), "team")
    }

    async fn read(body: &str) -> kube::Result<Option<Entry>> {
        read_entry(&api(answer("200", body)), "token", "token").await
    }

    /// Proves: X-canary
    #[tokio::test]
    async fn only_the_named_entry_is_decoded_despite_deep_managed_fields() {
        let deep = format!("{}{{}}{}", r#"{"f:a":"#.repeat(5000), "}".repeat(5000));
        let managed = format!(r#","managedFields":[{{"fieldsV1":{deep}}}]"#);
        let data = format!(r#"{{"other":7,"token":"{STORED}"}}"#);
        let body = secret(&managed, &data);
        let found = read(&body).await.unwrap().unwrap();
        assert_eq!(found.version.as_deref(), Some("7"));
        assert_eq!(found.value.unwrap(), TOKEN.as_bytes());
        let looked = read_metadata(&api(answer("200", &body)), "token").await;
        let version = looked.unwrap().unwrap().resource_version;
        assert_eq!(version.as_deref(), Some("7"));
    }

    #[tokio::test]
    async fn a_missing_secret_and_a_missing_entry_are_no_errors() {
        for data in ["{}", "null"] {
            let found = read(&secret("", data)).await.unwrap().unwrap();
            assert!(found.value.is_none(), "{data}");
        }
        let status =
            r#"{"kind":"Status","status":"Failure","reason":"NotFound","message":"no","code":404}"#;
        let gone = || api(answer("404", status));
        assert!(
            read_entry(&gone(), "token", "token")
                .await
                .unwrap()
                .is_none()
        );
        assert!(read_metadata(&gone(), "token").await.unwrap().is_none());
    }

    /// Proves: X-canary
    #[rstest]
    #[case::of_another_type(secret("", &format!(r#""{STORED}""#)))]
    #[case::an_entry_of_another_type(secret("", &format!(r#"{{"token":["{STORED}"]}}"#)))]
    #[case::not_base64(secret("", &format!(r#"{{"token":"{TOKEN}!"}}"#)))]
    #[case::bad_metadata(format!(r#"{{"metadata":"{TOKEN}","data":{{"token":"{STORED}"}}}}"#))]
    #[case::no_object(format!(r#""{TOKEN}{STORED}""#))]
    #[case::cut(secret("", &format!(r#"{{"token":"{STORED}"#)))]
    #[tokio::test]
    async fn what_can_t_be_read_is_an_error_without_any_of_it(#[case] body: String) {
        let error = read(&body).await.map(drop).unwrap_err();
        let told = format!("{error:?} {}", crate::util::error_chain(&error));
        assert!(!told.contains(TOKEN) && !told.contains(STORED), "{told}");
    }
}
