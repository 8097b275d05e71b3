//! A list that is read live, in pages that are bounded by their size in bytes, not only by their number of items.

use std::time::Duration;

use kube::core::Request;
use kube::{Api, Resource, api::ListParams};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::object::{Maybe, Object, decode};

/// Items of the first page. The size of the items is not known yet; each may have 1.5 MiB.
const FIRST_PAGE: u32 = 16;
/// Maximum number of items of a page, as in client-go.
const LARGEST_PAGE: u32 = 500;
/// Target size of a page in bytes.
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

/// Error of a list.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// A page could not be read.
    #[error("failed to read a page of a list")]
    Page(#[source] kube::Error),
    /// A page took too long.
    #[error("failed to read a page of a list within {} s", .0.as_secs())]
    Timeout(Duration),
}

/// Lists all objects that the API covers, read live. `a_page` is the time limit of each page, however many there are.
/// `fields` selects. The list ends early when the callback returns `true`. Otherwise it fails if an item's metadata
/// can't be read: a missing object might be that item.
pub async fn list<K: Object>(
    api: &Api<K>,
    fields: Option<&str>,
    a_page: Duration,
    mut enough: impl FnMut(Maybe<K>) -> bool,
) -> Result<(), ListError> {
    let mut params = ListParams {
        field_selector: fields.map(str::to_owned),
        ..ListParams::default()
    }
    .limit(FIRST_PAGE);
    loop {
        let text = timeout(a_page, read(api, &params)).await;
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
            let why = no_list("a list with an item whose metadata can't be read");
            return Err(ListError::Page(why));
        }
        if page.metadata.r#continue.is_empty() {
            return Ok(());
        }
        params.limit = params.limit.map(|limit| next_limit(limit, text.len()));
        params.continue_token = Some(page.metadata.r#continue);
    }
}

async fn read<K: Object>(api: &Api<K>, params: &ListParams) -> kube::Result<String> {
    let request = Request::new(api.resource_url());
    let request = if K::metadata_api() {
        request.list_metadata(params)
    } else {
        request.list(params)
    };
    let request = request.map_err(kube::Error::BuildRequest)?;
    api.clone().into_client().request_text(request).await
}

fn page(text: &str) -> kube::Result<Page<'_>> {
    let page: Page<'_> = serde_json::from_str(text).map_err(kube::Error::SerdeError)?;
    if page.metadata.r#continue.is_empty() && page.metadata.resource_version.is_empty() {
        return Err(no_list("a list without a resourceVersion"));
    }
    Ok(page)
}

/// Error for a success with an unexpected body: something on the way answered.
fn no_list(why: &str) -> kube::Error {
    kube::Error::SerdeError(serde_json::Error::custom(why))
}

/// Number of items of the next page, after one of `limit` items with so many bytes. It grows for small items and
/// shrinks for large ones.
fn next_limit(limit: u32, bytes: usize) -> u32 {
    let fitting = u64::from(limit).saturating_mul(PAGE_BYTES as u64) / (bytes.max(1) as u64);
    let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
    fitting.clamp(1, LARGEST_PAGE).min(limit.saturating_mul(4))
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

    /// The names up to `last` in a list of one page.
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
}
