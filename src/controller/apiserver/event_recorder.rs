//! Kubernetes Events, sent in the background: no reconcile waits for one or fails because of one.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt, stream};
// Not events.k8s.io/v1: it has no lastTimestamp, and `kubectl describe` orders Events only by that.
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::{Resource, ResourceExt, api::PostParams, core::Request};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::api::names;
use crate::clock::wall;
use crate::controller::metrics::{Metrics, NAMESPACE_GONE, QUEUE_FULL, REFUSED, UNANSWERED};
use crate::decide::{EventDraft, delays, truncate::cut};
use crate::util::{error_chain, lock};

use super::object::request_text;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts per Event, if the API server gives no answer, a 429 or a 5xx.
const TRIES: u32 = 3;
/// Limit on Events waiting to be sent; further ones are dropped and counted.
const QUEUE: usize = 4096;
const IN_FLIGHT: usize = 8;
/// Names remembered to save requests: five minutes at 50 Runs a second. Then all are forgotten, and the API server refuses.
const REMEMBERED: usize = 32_768;
/// Time for sending the rest at the end of the process.
const DRAIN: Duration = Duration::from_secs(3);
const CLUSTER_EVENTS: &str = "default";
const MAX_INSTANCE: usize = 128;
/// Maximum length of the object's name in an Event's name of at most 253 characters, with a dot and a hash.
const MAX_STEM: usize = 200;

/// An Event's name is a hash of the object's uid, its reason and its occasion: no process publishes one twice.
pub struct Recorder {
    client: kube::Client,
    process: String,
    metrics: Arc<Metrics>,
    sender: Mutex<Option<mpsc::Sender<Event>>>,
    receiver: Mutex<Option<mpsc::Receiver<Event>>>,
    published: Mutex<HashSet<u64>>,
    refused: Mutex<HashSet<String>>,
}

impl Recorder {
    pub fn new(client: kube::Client, process: &str, metrics: Arc<Metrics>) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        Self {
            client,
            process: cut(process, MAX_INSTANCE).to_owned(),
            metrics,
            sender: Mutex::new(Some(sender)),
            receiver: Mutex::new(Some(receiver)),
            published: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// Never waits. False: this process had one of its name.
    pub fn publish(&self, object: &impl Resource<DynamicType = ()>, draft: &EventDraft) -> bool {
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        let name = format!("{uid}/{}/{}", draft.reason.as_str(), draft.occasion);
        let name = delays::seed(&name, 0);
        let mut published = lock(&self.published);
        if !published.insert(name) {
            return false;
        }
        if published.len() > REMEMBERED {
            published.clear();
        }
        drop(published);
        let event = self.event(object, draft, name);
        let sender = lock(&self.sender);
        let queued = sender
            .as_ref()
            .is_some_and(|sender| sender.try_send(event).is_ok());
        if !queued {
            self.metrics.event_dropped(QUEUE_FULL);
        }
        true
    }

    pub async fn deliver(self: Arc<Self>) {
        let Some(mut receiver) = lock(&self.receiver).take() else {
            return;
        };
        let queued = stream::poll_fn(|context| receiver.poll_recv(context));
        let send = |event| self.send(event);
        queued.for_each_concurrent(IN_FLIGHT, send).await;
    }

    /// Ends [`Recorder::deliver`] when the queue is empty, or after [`DRAIN`].
    pub async fn close(&self, delivery: impl Future) {
        lock(&self.sender).take();
        if timeout(DRAIN, delivery).await.is_err() {
            tracing::debug!("shutdown timed out with Kubernetes Events unsent");
        }
    }

    async fn send(&self, event: Event) {
        for attempt in 1..=TRIES {
            let error = match timeout(TIMEOUT, self.create(&event)).await {
                Ok(Ok(())) => return,
                Ok(Err(kube::Error::Api(status))) if status.code == 409 => return,
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            };
            let cause = error.as_ref().map_or(UNANSWERED, cause_of);
            if attempt < TRIES && cause == UNANSWERED {
                sleep(delays::backoff(attempt, None, u64::from(attempt))).await;
                continue;
            }
            self.metrics.event_dropped(cause);
            let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
            // Missing permissions would fill the log.
            let first = || lock(&self.refused).insert(namespace.to_owned());
            if cause == UNANSWERED || cause == REFUSED && first() {
                let error =
                    error.map_or_else(|| "no answer".to_owned(), |error| error_chain(&error));
                tracing::warn!(
                    k8s.namespace.name = %namespace, event.reason = event.reason.as_deref(), %error,
                    "failed to publish an Event; a refusal is logged once for each namespace"
                );
            }
            return;
        }
    }

    /// Creates an Event. The stored one, with which the API server answers, is not decoded.
    async fn create(&self, event: &Event) -> kube::Result<()> {
        let body = serde_json::to_vec(event).map_err(kube::Error::SerdeError)?;
        let path = Event::url_path(&(), event.metadata.namespace.as_deref());
        let request = Request::new(path).create(&PostParams::default(), body);
        request_text(&self.client, request).await.map(drop)
    }

    fn event<K>(&self, object: &K, draft: &EventDraft, name: u64) -> Event
    where
        K: Resource<DynamicType = ()>,
    {
        let stem: String = object.name_any().chars().take(MAX_STEM).collect();
        let namespace = object.namespace();
        let reference: ObjectReference = object.object_ref(&());
        let now = wall();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{name:016x}", stem.trim_end_matches(['.', '-']))),
                namespace: namespace.or_else(|| Some(CLUSTER_EVENTS.to_owned())),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            type_: Some(draft.reason.kind().as_str().to_owned()),
            reason: Some(draft.reason.as_str().to_owned()),
            action: Some(draft.reason.action().to_owned()),
            message: Some(draft.message.clone()),
            source: Some(EventSource {
                component: Some(names::GROUP.to_owned()),
                ..EventSource::default()
            }),
            reporting_component: Some(names::GROUP.to_owned()),
            reporting_instance: Some(self.process.clone()),
            involved_object: reference,
            ..Event::default()
        }
    }
}

fn cause_of(error: &kube::Error) -> &'static str {
    let kube::Error::Api(status) = error else {
        return UNANSWERED;
    };
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    if status.code == 404 || causes.any(|cause| cause.reason == "NamespaceTerminating") {
        NAMESPACE_GONE
    } else if status.code == 429 || status.code >= 500 {
        UNANSWERED
    } else {
        REFUSED
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::{EventReason, Run};
    use crate::controller::apiserver::silent;

    /// Nothing is delivered here: the queue only fills.
    /// Proves: P-events
    #[tokio::test]
    async fn an_event_is_queued_once_and_counted_if_it_finds_no_place() {
        let metrics = Arc::new(Metrics::new());
        let recorder = Recorder::new(silent(), "process", Arc::clone(&metrics));
        let spec = json!({"workload": {"image": "ghcr.io/acme/train:1.4"}});
        let run = Run::new("train", serde_json::from_value(spec).unwrap());
        let publish = |occasion: usize| {
            let draft = EventDraft::new(EventReason::Retrying, occasion.to_string(), "again");
            recorder.publish(&run, &draft)
        };
        let dropped = || {
            let text = metrics.encode().unwrap();
            let series = "run_operator_events_dropped_total{cause=\"queue_full\"} ";
            let count = text.lines().find_map(|line| line.strip_prefix(series));
            count.unwrap().parse::<usize>().unwrap()
        };
        assert!((0..QUEUE).all(publish) && !(0..QUEUE).any(publish));
        assert_eq!(dropped(), 0);
        assert!((QUEUE..=REMEMBERED).all(publish));
        assert_eq!(dropped(), REMEMBERED + 1 - QUEUE);
        assert!(publish(0), "they are forgotten");
    }
}
