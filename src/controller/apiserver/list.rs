//! Lists in pages that are bounded by their size in bytes, not by their number of items alone.

use std::marker::PhantomData;

use kube::core::Request;
use kube::{Api, Client, api::ListParams};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::object::{Guarded, Object, decode, unreadable};

/// Items of the first page. The size of the items is not known then, and each may have 1.5 MiB.
const FIRST_PAGE: u32 = 16;
/// Items of a page at most, as client-go's.
const LARGEST_PAGE: u32 = 500;
/// Bytes of a page that the next one is to come near to.
const PAGE_BYTES: usize = 2 * 1024 * 1024;

/// A list that is read page by page.
pub struct Pages<K> {
    client: Client,
    url: String,
    params: ListParams,
    /// Items of the next page.
    limit: u32,
    kind: PhantomData<K>,
}

/// One page.
pub struct Page<K> {
    /// Its items, each decoded by itself.
    pub items: Vec<Guarded<K>>,
    /// The version of the whole list.
    pub resource_version: String,
    /// Whether it is the last one.
    pub last: bool,
}

#[derive(Deserialize)]
struct RawPage<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: String,
    r#continue: String,
}

impl<K: Object> Pages<K> {
    /// A list that has not begun.
    pub fn new(client: Client, url: String, fields: Option<&str>) -> Self {
        let params = ListParams {
            field_selector: fields.map(str::to_owned),
            ..ListParams::default()
        };
        Self {
            client,
            url,
            params,
            limit: FIRST_PAGE,
            kind: PhantomData,
        }
    }

    /// Reads the next page.
    pub async fn next(&mut self) -> kube::Result<Page<K>> {
        let params = self.params.clone().limit(self.limit);
        let request = Request::new(&self.url);
        let request = if K::METADATA_ONLY {
            request.list_metadata(&params)
        } else {
            request.list(&params)
        };
        let request = request.map_err(kube::Error::BuildRequest)?;
        let text = self.client.request_text(request).await?;
        let page: RawPage<'_> = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
        self.limit = next_limit(self.limit, text.len());
        let token = page.metadata.r#continue;
        let last = token.is_empty();
        self.params.continue_token = (!last).then_some(token);
        let items = page.items.unwrap_or_default();
        Ok(Page {
            items: items.into_iter().filter_map(item).collect(),
            resource_version: page.metadata.resource_version,
            last,
        })
    }
}

/// Items of the page after one of `limit` items that had so many bytes: more where they are small, and fewer where
/// they are large.
fn next_limit(limit: u32, bytes: usize) -> u32 {
    let fitting = u64::from(limit).saturating_mul(PAGE_BYTES as u64) / (bytes.max(1) as u64);
    let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
    fitting.clamp(1, LARGEST_PAGE).min(limit.saturating_mul(4))
}

fn item<K: Object>(raw: &RawValue) -> Option<Guarded<K>> {
    decode(raw)
        .inspect_err(|error| unreadable::<K>(raw, error))
        .ok()
}

/// Lists everything that the API covers, as it is now. `fields` selects; what the callback says `true` of ends the
/// list.
pub async fn list<K: Object>(
    api: &Api<K>,
    fields: Option<&str>,
    mut enough: impl FnMut(Guarded<K>) -> bool,
) -> kube::Result<()> {
    let mut pages = Pages::new(
        api.clone().into_client(),
        api.resource_url().to_owned(),
        fields,
    );
    loop {
        let page = pages.next().await?;
        if page.items.into_iter().any(&mut enough) || page.last {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_grow_while_they_are_small_and_shrink_when_they_are_large() {
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
