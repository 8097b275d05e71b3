//! Kubernetes Events, sent in the background: no reconcile waits for one or fails because of one.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

// Not events.k8s.io/v1: it has no lastTimestamp, and `kubectl describe` orders Events only by that.
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::{Resource, ResourceExt, api::PostParams, core::Request};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::api::names;
use crate::clock::wall;
use crate::controller::metrics::{DropCause, Metrics};
use crate::decide::{
    backoff,
    events::{correlator::Batch, event::EventDraft},
    truncate::cut,
};
use crate::util::{error_chain, lock};

/// Time limit of one attempt to send an Event.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts per Event, if the API server gives no answer, a 429 or a 5xx.
const TRIES: u32 = 3;
/// Limit on Events waiting to be sent; further ones are dropped and counted. Events that were probably published before
/// take up at most half: a start repeats recent Events, and must not displace new ones.
const QUEUE: usize = 4096;
/// Minimum time between two Events: 50 a second, like kubelet's own limit.
const APART: Duration = Duration::from_millis(20);
/// Events in flight at the same time.
const IN_FLIGHT: usize = 8;
/// Time for sending the rest at the end of the process.
const DRAIN: Duration = Duration::from_secs(3);
/// Namespace of Events about objects without a namespace.
const CLUSTER_EVENTS: &str = "default";
/// Maximum length in bytes of the reporting instance.
const MAX_INSTANCE: usize = 128;
/// Maximum length of the object's name in an Event's name. The latter has at most 253 characters, including a dot and a
/// hash.
const MAX_STEM: usize = 200;

/// Publishes Events. Their names are a hash of the object's uid and the Event's identity, so that a restart never
/// publishes the same Event twice.
pub struct Recorder {
    client: kube::Client,
    process: String,
    metrics: Arc<Metrics>,
    sender: mpsc::Sender<Event>,
    receiver: Mutex<Option<mpsc::Receiver<Event>>>,
    closed: CancellationToken,
    /// Namespaces for which a refusal was logged.
    refused: Mutex<HashSet<String>>,
}

impl Recorder {
    /// A recorder that names `process` as the reporting instance.
    pub fn new(client: kube::Client, process: &str, metrics: Arc<Metrics>) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        Self {
            client,
            process: cut(process, MAX_INSTANCE).to_owned(),
            metrics,
            sender,
            receiver: Mutex::new(Some(receiver)),
            closed: CancellationToken::new(),
            refused: Mutex::default(),
        }
    }

    /// Queues these Events. Never waits.
    pub fn publish<K>(&self, object: &K, batch: &Batch)
    where
        K: Resource<DynamicType = ()>,
    {
        self.metrics
            .events_dropped(DropCause::TooMany, batch.dropped);
        for draft in &batch.events {
            if draft.repeated && self.sender.capacity() < QUEUE / 2 {
                self.metrics.events_dropped(DropCause::Repeated, 1);
            } else if self.sender.try_send(self.event(object, draft)).is_err() {
                self.metrics.events_dropped(DropCause::QueueFull, 1);
            }
        }
    }

    /// Sends the queued Events until [`Recorder::close`].
    pub async fn deliver(self: Arc<Self>) {
        let Some(mut receiver) = lock(&self.receiver).take() else {
            return;
        };
        let permits = Arc::new(Semaphore::new(IN_FLIGHT));
        let sends = TaskTracker::new();
        let mut ticks = interval(APART);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let event = tokio::select! {
                biased;
                event = receiver.recv() => event,
                () = self.closed.cancelled(), if !receiver.is_closed() => {
                    receiver.close();
                    continue;
                }
            };
            let Some(event) = event else {
                break;
            };
            ticks.tick().await;
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                break;
            };
            let recorder = Arc::clone(&self);
            sends.spawn(async move {
                recorder.send(&event).await;
                drop(permit);
            });
        }
        sends.close();
        sends.wait().await;
    }

    /// Ends [`Recorder::deliver`] when the queue is empty, or after [`DRAIN`]. The next process publishes recent Events
    /// that were not sent.
    pub async fn close(&self, delivery: impl Future) {
        self.closed.cancel();
        if timeout(DRAIN, delivery).await.is_err() {
            tracing::debug!("shutdown timed out with Kubernetes Events unsent");
        }
    }

    async fn send(&self, event: &Event) {
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        for attempt in 1..=TRIES {
            let error = match timeout(TIMEOUT, self.create(namespace, event)).await {
                Ok(Ok(())) => return,
                Ok(Err(kube::Error::Api(status))) if status.code == 409 => return,
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            };
            if attempt == TRIES || !error.as_ref().is_none_or(transient) {
                self.failed(event, namespace, error.as_ref());
                return;
            }
            sleep(backoff::delay(attempt, None, u64::from(attempt))).await;
        }
    }

    /// Creates an Event. The stored one, with which the API server answers, is not decoded.
    async fn create(&self, namespace: &str, event: &Event) -> kube::Result<()> {
        let body = serde_json::to_vec(event).map_err(kube::Error::SerdeError)?;
        let request = Request::new(Event::url_path(&(), Some(namespace)))
            .create(&PostParams::default(), body)
            .map_err(kube::Error::BuildRequest)?;
        self.client.request_text(request).await.map(drop)
    }

    /// Logs and counts an Event that is not published; no error means no answer.
    fn failed(&self, event: &Event, namespace: &str, error: Option<&kube::Error>) {
        let cause = if let Some(error) = error {
            self.log(event, namespace, error);
            cause_of(error)
        } else {
            tracing::warn!(
                k8s.namespace.name = %namespace, event.reason = event.reason.as_deref(),
                seconds = TIMEOUT.as_secs(), "failed to publish an Event: no answer"
            );
            DropCause::NoAnswer
        };
        self.metrics.events_dropped(cause, 1);
    }

    /// Logs a failed Event. A refusal is logged once per namespace, since missing permissions would fill the log. In a
    /// namespace that is being deleted no Event can be created; that is logged at debug level.
    fn log(&self, event: &Event, namespace: &str, error: &kube::Error) {
        let reason = event.reason.as_deref();
        if namespace_deleted(error) {
            tracing::debug!(k8s.namespace.name = %namespace, event.reason = reason, "the namespace is being deleted; the Event is dropped");
            return;
        }
        let refused = matches!(error, kube::Error::Api(status) if status.code == 403);
        if refused && !lock(&self.refused).insert(namespace.to_owned()) {
            tracing::debug!(k8s.namespace.name = %namespace, event.reason = reason, "not allowed to publish an Event; it is dropped");
            return;
        }
        tracing::warn!(
            k8s.namespace.name = %namespace, event.reason = reason, error = %error_chain(error),
            "failed to publish an Event; a refusal is logged once for each namespace"
        );
    }

    fn event<K>(&self, object: &K, draft: &EventDraft) -> Event
    where
        K: Resource<DynamicType = ()>,
    {
        let uid = object.uid().unwrap_or_default();
        let reason = draft.reason.as_str();
        let hash = backoff::seed(&format!("{uid}/{reason}/{}", draft.identity), 0);
        let stem: String = object.name_any().chars().take(MAX_STEM).collect();
        let reference: ObjectReference = object.object_ref(&());
        let now = wall();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{hash:016x}", stem.trim_end_matches(['.', '-']))),
                namespace: object
                    .namespace()
                    .or_else(|| Some(CLUSTER_EVENTS.to_owned())),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            type_: Some(draft.reason.kind().as_str().to_owned()),
            reason: Some(reason.to_owned()),
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

/// Cause for dropping an Event.
fn cause_of(error: &kube::Error) -> DropCause {
    if namespace_deleted(error) {
        DropCause::NamespaceGone
    } else if transient(error) {
        DropCause::NoAnswer
    } else {
        DropCause::Refused
    }
}

/// Whether another attempt may succeed soon.
fn transient(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        _ => true,
    }
}

/// Whether the namespace is deleted or being deleted.
fn namespace_deleted(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut terminating = causes.filter(|cause| cause.reason == "NamespaceTerminating");
    status.code == 404 || terminating.next().is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::{EventReason, Run};
    use crate::controller::apiserver::silent;

    /// Nothing is delivered here: the queue only fills.
    /// Proves: P-events-once
    #[tokio::test]
    async fn events_that_find_no_place_in_the_queue_are_counted_by_cause() {
        let metrics = Arc::new(Metrics::new());
        let recorder = Recorder::new(silent(), "process", Arc::clone(&metrics));
        let spec = json!({"workload": {"image": "ghcr.io/acme/train:1.4"}});
        let run = Run::new("train", serde_json::from_value(spec).unwrap());
        let publish = |repeated, dropped| {
            let draft = EventDraft {
                repeated,
                ..EventDraft::new(EventReason::Retrying, "again", "")
            };
            let events = vec![draft; QUEUE];
            recorder.publish(&run, &Batch { events, dropped });
        };
        let counted = |cause: &str| {
            let text = metrics.encode().unwrap();
            let series = format!("run_operator_events_dropped_total{{cause=\"{cause}\"}} ");
            let mut lines = text.lines();
            let count = lines.find_map(|line| line.strip_prefix(series.as_str()));
            count.unwrap().parse::<usize>().unwrap()
        };
        let all = || ["too_many", "repeated", "queue_full"].map(counted);
        publish(true, 0);
        assert_eq!(all(), [0, QUEUE / 2 - 1, 0], "half of it is for new ones");
        publish(false, 3);
        assert_eq!(all(), [3, QUEUE / 2 - 1, QUEUE / 2 + 1]);
    }
}
