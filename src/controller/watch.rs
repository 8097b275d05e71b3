//! A watch that gets over what kube's watcher does not.

use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::decide::backoff;

/// Failures in a row after which the watcher is thrown away and the list begins anew. kube's watcher
/// keeps its resourceVersion when the API server answers a watch's start with 410 as an HTTP status, and
/// would ask for it for ever.
const FAILURES: u32 = 5;
/// The longest pause before a watcher is replaced.
const LONGEST: Duration = Duration::from_secs(30);
/// A watcher that lived for so long is replaced as if it were the first one.
const LASTING: Duration = Duration::from_mins(2);

/// Watches `api` for good: errors are logged and retried with backoff, and a watcher that makes no
/// progress is replaced, which lists again.
pub fn resilient<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = Event<K>> + Send
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let fresh = move || Box::pin(watcher(api.clone(), config.clone()).default_backoff());
    let first = fresh();
    stream::unfold(
        (first, Trouble::new(), fresh),
        |(mut events, mut trouble, fresh)| async move {
            loop {
                match events.next().await {
                    Some(Ok(event)) => {
                        // A list begins with Init also where it then fails.
                        if !matches!(event, Event::Init) {
                            trouble.failures = 0;
                        }
                        return Some((event, (events, trouble, fresh)));
                    }
                    Some(Err(error)) => {
                        trouble.failures += 1;
                        report::<K>(&error, trouble.failures);
                        if trouble.failures >= FAILURES || gone(&error) {
                            // A list of everything each time; and while the API server is down, the
                            // fresh watcher's own backoff would start small again.
                            tokio::time::sleep(trouble.pause(&K::kind(&()), Instant::now())).await;
                            events = fresh();
                        }
                    }
                    None => return None,
                }
            }
        },
    )
}

/// What a watch went through.
struct Trouble {
    /// Errors in a row.
    failures: u32,
    /// Watchers in a row that had to be replaced soon.
    replaced: u32,
    /// When the present watcher began.
    since: Instant,
}

impl Trouble {
    fn new() -> Self {
        Self {
            failures: 0,
            replaced: 0,
            since: Instant::now(),
        }
    }

    /// The watcher is replaced: how long to wait before.
    fn pause(&mut self, kind: &str, now: Instant) -> Duration {
        let lasted = now.saturating_duration_since(self.since) >= LASTING;
        let replaced = if lasted { 1 } else { self.replaced + 1 };
        let seed = backoff::seed(kind, replaced);
        let pause = backoff::delay(replaced, None, seed).min(LONGEST);
        *self = Self {
            failures: 0,
            replaced,
            since: now + pause,
        };
        pause
    }
}

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

    #[test]
    fn a_watch_that_is_gone_again_and_again_is_listed_anew_less_and_less_often() {
        let mut trouble = Trouble::new();
        let mut pauses = Vec::new();
        let mut now = Instant::now();
        for _ in 0..10 {
            let pause = trouble.pause("Run", now);
            now += pause;
            pauses.push(pause);
        }
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert!(pauses[0] <= Duration::from_secs(1));
        assert_eq!(pauses[9], LONGEST);
        let pause = trouble.pause("Run", now + LASTING);
        assert!(pause <= Duration::from_secs(1));
    }

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
