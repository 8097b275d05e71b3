//! A watch that gets over what kube's watcher does not.

use std::fmt::Debug;

use futures::{Stream, StreamExt, stream};
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;

/// Failures in a row after which the watcher is thrown away and the list begins anew. kube's watcher
/// keeps its resourceVersion when the API server answers a watch's start with 410 as an HTTP status, and
/// would ask for it for ever.
const FAILURES: u32 = 5;

/// Watches `api` for good: errors are logged and retried with backoff, and a watcher that makes no
/// progress is replaced, which lists again.
pub fn resilient<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = Event<K>> + Send
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let fresh = move || Box::pin(watcher(api.clone(), config.clone()).default_backoff());
    let first = fresh();
    stream::unfold(
        (first, 0_u32, fresh),
        |(mut events, mut failures, fresh)| async move {
            loop {
                match events.next().await {
                    Some(Ok(event)) => {
                        // A list begins with Init also where it then fails.
                        let failures = if matches!(event, Event::Init) {
                            failures
                        } else {
                            0
                        };
                        return Some((event, (events, failures, fresh)));
                    }
                    Some(Err(error)) => {
                        failures += 1;
                        report::<K>(&error, failures);
                        if failures >= FAILURES || gone(&error) {
                            failures = 0;
                            events = fresh();
                            // Its first item is an error too while the API server is down; the fresh
                            // watcher's own backoff starts small, so wait like the old one would.
                            tokio::time::sleep(RESTART_PAUSE).await;
                        }
                    }
                    None => return None,
                }
            }
        },
    )
}

/// Pause before a watcher is replaced: an API server that is down is not to be hammered by lists.
const RESTART_PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

fn gone(error: &watcher::Error) -> bool {
    let (watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchError(status)) = error
    else {
        return false;
    };
    status.code == 410
}

/// A list or a watch is answered by a bare 404 where its resource does not exist, or exists no more.
fn unknown_kind(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))) = error
    else {
        return false;
    };
    status.code == 404
}

fn report<K: Resource<DynamicType = ()>>(error: &watcher::Error, failures: u32) {
    let kind = K::kind(&());
    if unknown_kind(error) {
        // Once a watcher, not once a list: they may be applied later.
        if failures == 1 {
            tracing::warn!(
                k8s.kind = %kind,
                "the API server doesn't know this kind; apply the CRDs: run-operator crds | kubectl apply --server-side -f -"
            );
        }
        return;
    }
    tracing::warn!(k8s.kind = %kind, failures, error = %chain(error), "watch failed; retrying");
}

/// An error with its sources on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // kube repeats its source in its own text; once is enough.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn listed(status: Status) -> watcher::Error {
        watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn a_list_or_watch_that_is_not_found_is_of_a_kind_that_the_api_server_does_not_know() {
        // As it answers: a bare 404, which is no Status of its own.
        let bare = Status::failure("404 page not found", "").with_code(404);
        assert!(unknown_kind(&listed(bare.clone())));
        let gone = watcher::Error::WatchStartFailed(kube::Error::Api(Box::new(bare)));
        assert!(unknown_kind(&gone));
        let forbidden = Status::failure("forbidden", "Forbidden").with_code(403);
        assert!(!unknown_kind(&listed(forbidden)));
    }
}
