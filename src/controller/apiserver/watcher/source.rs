//! What is watched.

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::{
    list::Pages,
    object::{Maybe, Object, decode_or_skip},
};

/// Finds an object that this process has decoded already, by uid and resourceVersion.
type Known<K> = Box<dyn Fn(&str, &str) -> Option<Arc<K>> + Send + Sync>;

/// Source of a watch.
pub struct Source<K> {
    pub(super) api: Api<K>,
    pub(super) fields: Option<String>,
    pub(super) timeout: Duration,
    known: Known<K>,
}

impl<K: Object> Source<K> {
    /// All objects that the API covers. The API server ends each watch after `timeout`.
    pub fn new(api: Api<K>, timeout: Duration) -> Self {
        Self {
            api,
            fields: None,
            timeout,
            known: Box::new(|_, _| None),
        }
    }

    /// Takes objects from here instead of decoding them: those that this process has written itself.
    #[must_use]
    pub fn known(
        mut self,
        find: impl Fn(&str, &str) -> Option<Arc<K>> + Send + Sync + 'static,
    ) -> Self {
        self.known = Box::new(find);
        self
    }

    /// Restricts the watch with this field selector.
    #[must_use]
    pub fn fields(mut self, selector: String) -> Self {
        self.fields = Some(selector);
        self
    }

    /// The list in pages, before the first one.
    pub(super) fn pages(&self) -> Pages<K> {
        Pages::new(self.api.clone(), self.fields.as_deref())
    }

    /// An object of a watch's line.
    pub(super) fn decode(&self, item: &RawValue) -> Option<Maybe<K>> {
        let identity = serde_json::from_str::<Identified<'_>>(item.get());
        let known = identity.ok().and_then(|item| {
            let Identity {
                uid,
                resource_version,
            } = item.metadata;
            (self.known)(uid?, resource_version?)
        });
        known.map_or_else(|| decode_or_skip(item), |known| Some(Maybe::Good(known)))
    }
}

/// What identifies a version of an object.
#[derive(Deserialize)]
struct Identified<'a> {
    #[serde(borrow)]
    metadata: Identity<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Identity<'a> {
    uid: Option<&'a str>,
    resource_version: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;

    use super::*;
    use crate::api::Run;
    use crate::controller::apiserver::silent;

    #[tokio::test]
    async fn a_version_that_was_written_here_is_not_decoded_again() {
        let item = |version: &str| {
            let text = format!(
                r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"{version}"}},"spec":{{"workload":{{}}}}}}"#
            );
            RawValue::from_string(text).unwrap()
        };
        let Maybe::Good(written) = decode_or_skip::<Run>(&item("5")).unwrap() else {
            panic!("it can be decoded");
        };
        let known = Arc::clone(&written);
        let source = Source::new(Api::<Run>::all(silent()), Duration::ZERO)
            .known(move |uid, version| (uid == "u" && version == "5").then(|| Arc::clone(&known)));
        let of = |version: &str| {
            source
                .decode(&item(version))
                .unwrap()
                .good()
                .cloned()
                .unwrap()
        };
        assert!(Arc::ptr_eq(&of("5"), &written));
        let newer = of("6");
        assert_eq!(newer.resource_version().as_deref(), Some("6"));
    }
}
