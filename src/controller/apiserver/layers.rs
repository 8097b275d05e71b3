//! Layers of the Kubernetes client: bounds on kube's retries and watches, and below them the count of requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use kube::client::{Body, retry::RetryPolicy};
use tokio::time::Instant;
use tower::{BoxError, Layer, Service, filter::AsyncFilterLayer, retry::Policy};

use crate::controller::metrics::Metrics;
use crate::util::lock;

const FIRST: Duration = Duration::from_millis(5);
/// Longest pause before a repetition: a list that sleeps for a proxy's long `Retry-After` leaves the operator without data.
const LONGEST: Duration = Duration::from_secs(10);
/// Repetitions of one request; then its caller gets the error.
const TIMES: u32 = 15;
/// A watch that ends sooner after its start was ended early. The next one of the collection starts this long after it.
const APART: Duration = Duration::from_secs(1);
/// The same after the first two in a row: under load an API server ends a single watch now and then.
const FIRST_APART: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];

/// kube's retry of requests answered with 429, 503 or 504, with bounded pauses.
#[derive(Clone)]
pub struct BoundedRetry(RetryPolicy);

impl Default for BoundedRetry {
    fn default() -> Self {
        let policy = RetryPolicy::new(FIRST, LONGEST, TIMES, true);
        Self(policy.unwrap_or_default())
    }
}

impl<B> Policy<Request<Body>, Response<B>, BoxError> for BoundedRetry {
    type Future = tokio::time::Sleep;

    fn retry(
        &mut self,
        request: &mut Request<Body>,
        result: &mut Result<Response<B>, BoxError>,
    ) -> Option<Self::Future> {
        if let Ok(response) = result {
            clamp(response.headers_mut());
        }
        self.0.retry(request, result)
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        Policy::<Request<Body>, Response<B>, BoxError>::clone_request(&mut self.0, request)
    }
}

/// Lowers a `Retry-After` to the longest pause. The policy ignores a date, and waits as without the header.
fn clamp(headers: &mut HeaderMap) {
    let asked = headers.get(RETRY_AFTER).and_then(|v| v.to_str().ok());
    let digits = asked.is_some_and(|v| !v.is_empty() && v.bytes().all(|b| b.is_ascii_digit()));
    // A number with too many digits to parse is long too.
    let long = |v: &str| v.parse::<u64>().map_or(true, |v| v > LONGEST.as_secs());
    if digits && asked.is_some_and(long) {
        headers.insert(RETRY_AFTER, HeaderValue::from(LONGEST.as_secs()));
    }
}

type Admitted = BoxFuture<'static, Result<Request<Body>, BoxError>>;

/// What kube's watcher lacks: it begins a watch again as soon as it has ended, here not without a pause; and it asks for a
/// streamed list at the version 0, which means any version, here without one, so that it is as recent as etcd.
pub fn throttle_watches() -> AsyncFilterLayer<impl Fn(Request<Body>) -> Admitted + Clone> {
    let watches = Watches::default();
    AsyncFilterLayer::new(move |mut request: Request<Body>| {
        if let Some(recent) = most_recent(request.uri()) {
            *request.uri_mut() = recent;
        }
        let now = Instant::now();
        let due = watched(request.uri()).and_then(|watch| watches.pause(watch, now));
        async move {
            if let Some(due) = due {
                tokio::time::sleep_until(due).await;
            }
            Ok(request)
        }
        .boxed()
    })
}

#[derive(Clone, Default)]
struct Watches(Arc<Mutex<HashMap<String, Begun>>>);

struct Begun {
    at: Instant,
    /// Watches in a row before it that were ended early.
    short: usize,
}

impl Watches {
    fn pause(&self, watched: String, now: Instant) -> Option<Instant> {
        let mut begun = lock(&self.0);
        begun.retain(|_, last| now < last.at + APART);
        let next = begun.get(&watched).map(|last| {
            let apart = FIRST_APART.get(last.short).unwrap_or(&APART);
            Begun {
                at: now.max(last.at + *apart),
                short: last.short.saturating_add(1),
            }
        });
        let next = next.unwrap_or(Begun { at: now, short: 0 });
        let due = (next.at > now).then_some(next.at);
        begun.insert(watched, next);
        due
    }
}

/// Identity of a watch: its address without the resourceVersion. `None` if the request is no watch.
fn watched(uri: &Uri) -> Option<String> {
    let parts: Vec<&str> = uri.query()?.split('&').collect();
    let watches = parts
        .iter()
        .any(|part| matches!(*part, "watch=true" | "watch=1"));
    let same = |part: &&str| !part.starts_with("resourceVersion=");
    let rest = || parts.into_iter().filter(same).collect::<Vec<_>>().join("&");
    watches.then(|| format!("{}?{}", uri.path(), rest()))
}

/// The address of a streamed list at any version, changed to the most recent one. `None` if the request is none.
fn most_recent(uri: &Uri) -> Option<Uri> {
    let query = uri.query()?;
    let parts = query.split('&');
    if !parts.clone().any(|part| part == "sendInitialEvents=true") {
        return None;
    }
    let rest = parts.filter(|part| *part != "resourceVersion=0");
    let query = rest.collect::<Vec<_>>().join("&");
    let mut changed = uri.clone().into_parts();
    changed.path_and_query = format!("{}?{query}", uri.path()).parse().ok();
    Uri::from_parts(changed).ok()
}

#[derive(Clone)]
pub struct CountRequests(pub Arc<Metrics>);

impl<S> Layer<S> for CountRequests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        let metrics = Arc::clone(&self.0);
        Counted { inner, metrics }
    }
}

pub struct Counted<S> {
    inner: S,
    metrics: Arc<Metrics>,
}

impl<S, A, B> Service<Request<A>> for Counted<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let attempt = Attempt {
            metrics: Arc::clone(&self.metrics),
            method: request.method().clone(),
            status: None,
        };
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await;
            attempt.ended(answer.as_ref().ok().map(Response::status));
            answer
        }
        .boxed()
    }
}

/// One attempt. It is counted when dropped, so that an attempt that timed out counts too.
struct Attempt {
    metrics: Arc<Metrics>,
    method: Method,
    status: Option<StatusCode>,
}

impl Attempt {
    fn ended(mut self, status: Option<StatusCode>) {
        self.status = status;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let status = self.status.map(|status| status.as_u16());
        self.metrics.api_request(self.method.as_str(), status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: F-outage
    #[test]
    fn no_answer_is_waited_for_longer_than_the_longest_pause() {
        for (asked, waited) in [
            ("1", "1"),
            ("10", "10"),
            ("11", "10"),
            ("86400", "10"),
            ("99999999999999999999999", "10"),
            (
                "Wed, 21 Oct 2076 07:28:00 GMT",
                "Wed, 21 Oct 2076 07:28:00 GMT",
            ),
            ("-1", "-1"),
            ("", ""),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(asked));
            clamp(&mut headers);
            assert_eq!(headers[RETRY_AFTER], waited, "{asked}");
        }
    }

    /// Proves: F-stale
    #[test]
    fn a_streamed_list_is_asked_for_at_no_version() {
        let changed = |text: &'static str| most_recent(&Uri::from_static(text));
        let streamed = "http://a:1/runs?&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0";
        let recent =
            "http://a:1/runs?&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        assert_eq!(changed(streamed).unwrap(), recent);
        assert_eq!(
            changed("http://a:1/runs?watch=true&resourceVersion=0"),
            None
        );
    }

    /// Proves: F-outage
    #[test]
    fn watches_that_end_at_once_start_further_and_further_apart() {
        let throttle = Watches::default();
        let uri = |text: &'static str| watched(&Uri::from_static(text));
        let one = uri("/runs?&watch=true&resourceVersion=1").unwrap();
        assert_eq!(
            uri("/runs?&watch=true&resourceVersion=2").as_ref(),
            Some(&one)
        );
        let other = uri("/runs?&watch=true&fieldSelector=a&resourceVersion=1").unwrap();
        assert_ne!(other, one);
        assert_eq!(uri("/runs?limit=500"), None);
        let mut now = Instant::now();
        assert_eq!(throttle.pause(other, now), None);
        assert_eq!(throttle.pause(one.clone(), now), None);
        for millis in [50, 250, 1000, 1000] {
            // Each ends a moment after it began.
            now += Duration::from_millis(1);
            let due = throttle.pause(one.clone(), now).unwrap();
            assert_eq!(due - now, Duration::from_millis(millis - 1));
            now = due;
        }
        // One that lasted begins a new row.
        now += APART;
        assert_eq!(throttle.pause(one.clone(), now), None);
        let later = now + Duration::from_millis(300);
        assert_eq!(throttle.pause(one, later), None, "far enough apart");
        assert_eq!(lock(&throttle.0).len(), 1, "what is over is not kept");
    }
}
