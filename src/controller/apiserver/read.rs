//! Live reads: lists in pages bounded by bytes, not only by items; and Secrets, one entry or only the metadata.

use std::fmt;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Request;
use kube::{
    Api, Resource,
    api::{GetParams, ListParams},
};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::object::{Built, Maybe, Object, Parts, decode, outline, part, request_text};

/// Items of the first page. The size of the items is not known yet; each may have 1.5 MiB.
const FIRST_PAGE: u32 = 16;
/// Maximum number of items of a page, as in client-go.
const LARGEST_PAGE: u32 = 500;
const PAGE_BYTES: usize = 2 * 1024 * 1024;

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    /// Null if there are none: Go writes a nil slice so. If the field is missing, this is no list.
    #[serde(borrow, deserialize_with = "Option::deserialize")]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: String,
    r#continue: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error("failed to read a page of a list")]
    Page(#[source] kube::Error),
    #[error("failed to read a page of a list within {} s", .0.as_secs())]
    Timeout(Duration),
}

/// The object with this name, read live: by a list of one name, which needs no permission beyond the watch's and is as
/// fresh as a get. It fails if the metadata of what it finds can't be read.
pub async fn read_named<K: Object>(
    api: &Api<K>,
    name: &str,
    limit: Duration,
) -> Result<Option<Maybe<K>>, ListError> {
    let mut found = None;
    let named = format!("metadata.name={name}");
    let list = list(api, Some(&named), limit, |object| {
        let is_it = object.meta().name.as_deref() == Some(name);
        found = is_it.then_some(object);
        is_it
    });
    list.await?;
    Ok(found)
}

/// Lists all objects that the API covers, live. `a_page`: time limit of each page. Ends early when the callback returns
/// `true`; else it fails if an item's metadata can't be read: a missing object might be that item.
pub async fn list<K: Object>(
    api: &Api<K>,
    fields: Option<&str>,
    a_page: Duration,
    mut enough: impl FnMut(Maybe<K>) -> bool,
) -> Result<(), ListError> {
    let mut params = ListParams::default().limit(FIRST_PAGE);
    params.field_selector = fields.map(str::to_owned);
    loop {
        let request = Request::new(api.resource_url()).list(&params);
        let client = api.clone().into_client();
        let text = timeout(a_page, request_text(&client, request)).await;
        let text = text.map_err(|_| ListError::Timeout(a_page))?;
        let text = text.map_err(ListError::Page)?;
        let page = page(&text).map_err(ListError::Page)?;
        let mut nameless = false;
        for item in page.items.unwrap_or_default() {
            let object = decode::<K>(item);
            if object.meta().name.is_none() {
                nameless = true;
            } else if enough(object) {
                return Ok(());
            }
        }
        if nameless {
            let why = unreadable("a list with an item whose metadata can't be read");
            return Err(ListError::Page(why));
        }
        if page.metadata.r#continue.is_empty() {
            return Ok(());
        }
        params.limit = params.limit.map(|limit| next_limit(limit, text.len()));
        params.continue_token = Some(page.metadata.r#continue);
    }
}

/// Fails for a success with an unexpected body: something on the way answered.
fn page(text: &str) -> kube::Result<Page<'_>> {
    let page: Page<'_> = serde_json::from_str(text).map_err(kube::Error::SerdeError)?;
    if page.metadata.r#continue.is_empty() && page.metadata.resource_version.is_empty() {
        return Err(unreadable("a list without a resourceVersion"));
    }
    Ok(page)
}

fn next_limit(limit: u32, bytes: usize) -> u32 {
    let fitting = u64::from(limit).saturating_mul(PAGE_BYTES as u64) / (bytes.max(1) as u64);
    let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
    fitting.clamp(1, LARGEST_PAGE).min(limit.saturating_mul(4))
}

pub struct Entry {
    pub version: Option<String>,
    pub value: Option<Vec<u8>>,
}

/// Reads one entry of a Secret; `None` if the Secret doesn't exist. No error of this module contains any of its text.
pub async fn read_entry(api: &Api<Secret>, name: &str, entry: &str) -> kube::Result<Option<Entry>> {
    let request = Request::new(api.resource_url()).get(name, &GetParams::default());
    let Some(text) = found(api, request).await? else {
        return Ok(None);
    };
    let (parts, metadata) = parts(&text)?;
    let data = parts.data().map_err(unreadable)?;
    let value = data.get(entry).map(|raw| part::<ByteString>("data", raw));
    Ok(Some(Entry {
        version: metadata.resource_version,
        value: value.transpose().map_err(unreadable)?.map(|value| value.0),
    }))
}

pub async fn read_metadata(api: &Api<Secret>, name: &str) -> kube::Result<Option<ObjectMeta>> {
    let request = Request::new(api.resource_url()).get_metadata(name, &GetParams::default());
    let text = found(api, request).await?;
    text.map(|text| Ok(parts(&text)?.1)).transpose()
}

async fn found(api: &Api<Secret>, request: Built) -> kube::Result<Option<String>> {
    match request_text(&api.clone().into_client(), request).await {
        Ok(text) => Ok(Some(text)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// The parts of an answer, and its metadata. Errors name only a position.
fn parts(text: &str) -> kube::Result<(Parts<'_>, ObjectMeta)> {
    let raw = serde_json::from_str(text).map_err(kube::Error::SerdeError)?;
    outline(raw).map_err(unreadable)
}

fn unreadable(error: impl fmt::Display) -> kube::Error {
    kube::Error::SerdeError(serde_json::Error::custom(error))
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use rstest::rstest;

    use super::*;
    use crate::api::Run;
    use crate::controller::apiserver::{answer, loopback, silent};

    const A: &str = r#"{"metadata":{"name":"a"},"spec":{"workload":{}}}"#;
    const NAMELESS: &str = r#"{"metadata":{"name":7}}"#;

    fn page(items: &str) -> String {
        format!(r#"{{"metadata":{{"resourceVersion":"5"}},"items":{items}}}"#)
    }

    async fn names(body: &str, last: &str) -> Result<Vec<String>, ListError> {
        let api: Api<Run> = Api::all(loopback(vec![answer("200", body)]));
        let mut names = Vec::new();
        let listed = list(&api, None, Duration::from_mins(1), |run| {
            names.push(run.name_any());
            run.name_any() == last
        });
        listed.await.map(|()| names)
    }

    #[tokio::test]
    async fn an_empty_list_is_a_list_however_it_is_written() {
        for items in ["[]", "null"] {
            assert!(names(&page(items), "").await.unwrap().is_empty());
        }
        assert_eq!(names(&page(&format!("[{A}]")), "").await.unwrap(), ["a"]);
    }

    /// Proves: F-stale
    #[rstest]
    #[case::something_else("{}")]
    #[case::no_items(r#"{"metadata":{"resourceVersion":"5"}}"#)]
    #[case::no_version(r#"{"metadata":{},"items":[]}"#)]
    #[case::a_page_of_a_proxy("<html>")]
    #[tokio::test]
    async fn a_success_that_is_no_list_is_an_error(#[case] body: &str) {
        assert!(names(body, "").await.is_err());
    }

    /// Proves: F-outage
    #[tokio::test]
    async fn a_page_has_so_much_time_and_not_the_whole_list() {
        let api: Api<Run> = Api::all(silent());
        let listed = list(&api, None, Duration::ZERO, |_| false).await;
        assert!(matches!(listed, Err(ListError::Timeout(_))), "{listed:?}");
    }

    /// Proves: F-stale
    #[tokio::test]
    async fn a_list_with_a_nameless_item_does_not_prove_absence() {
        let body = page(&format!("[{NAMELESS},{A}]"));
        assert!(names(&body, "b").await.is_err());
        assert_eq!(names(&body, "a").await.unwrap(), ["a"]);
    }

    /// Proves: F-heavy
    #[test]
    fn list_page_size_adapts_to_the_weight_of_its_items() {
        let small = 2000;
        let mut limit = FIRST_PAGE;
        let mut limits = Vec::new();
        for _ in 0..5 {
            limits.push(limit);
            limit = next_limit(limit, limit as usize * small);
        }
        assert_eq!(limits, [16, 64, 256, 500, 500]);
        let heavy = 1_500_000;
        assert_eq!(next_limit(16, 16 * heavy), 1);
        assert_eq!(next_limit(1, heavy), 1);
        assert_eq!(next_limit(1, 0), 4);
    }

    /// Values that no error may contain: the token, and its form in the Secret.
    const TOKEN: &str = "canary-51c7";
    const STORED: &str = "Y2FuYXJ5LTUxYzc=";

    fn secret(metadata: &str, data: &str) -> String {
        format!(
            r#"{{"kind":"Secret","metadata":{{"name":"token","resourceVersion":"7"{metadata}}},"data":{data}}}"#
        )
    }

    fn secrets(answer: String) -> Api<Secret> {
        Api::namespaced(loopback(vec![answer]), "team")
    }

    async fn token(body: &str) -> kube::Result<Option<Entry>> {
        read_entry(&secrets(answer("200", body)), "token", "token").await
    }

    /// Proves: X-canary
    #[tokio::test]
    async fn only_the_named_entry_is_decoded_despite_deep_managed_fields() {
        let deep = format!("{}{{}}{}", r#"{"f:a":"#.repeat(5000), "}".repeat(5000));
        let managed = format!(r#","managedFields":[{{"fieldsV1":{deep}}}]"#);
        let data = format!(r#"{{"other":7,"token":"{STORED}"}}"#);
        let body = secret(&managed, &data);
        let found = token(&body).await.unwrap().unwrap();
        assert_eq!(found.version.as_deref(), Some("7"));
        assert_eq!(found.value.unwrap(), TOKEN.as_bytes());
        let looked = read_metadata(&secrets(answer("200", &body)), "token").await;
        let version = looked.unwrap().unwrap().resource_version;
        assert_eq!(version.as_deref(), Some("7"));
    }

    #[tokio::test]
    async fn a_missing_secret_and_a_missing_entry_are_no_errors() {
        for data in ["{}", "null"] {
            let found = token(&secret("", data)).await.unwrap().unwrap();
            assert!(found.value.is_none(), "{data}");
        }
        let status =
            r#"{"kind":"Status","status":"Failure","reason":"NotFound","message":"no","code":404}"#;
        let gone = || secrets(answer("404", status));
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
        let error = token(&body).await.map(drop).unwrap_err();
        let told = format!("{error:?} {}", crate::util::error_chain(&error));
        assert!(!told.contains(TOKEN) && !told.contains(STORED), "{told}");
    }
}
