//! Kubernetes Events: news that no field of the status keeps.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::{Api, Resource, ResourceExt, api::PostParams};

use crate::api::{Run, names};
use crate::decide::{Note, backoff, notes::News};

use super::watch::chain;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Publishes Events. Their names are a hash of the object's uid and what they say, so that a restart
/// never says the same thing twice.
pub struct Recorder {
    client: kube::Client,
    process: String,
}

impl Recorder {
    /// A recorder that names `process` as the reporting instance.
    pub fn new(client: kube::Client, process: String) -> Self {
        Self { client, process }
    }

    /// Publishes a note. A failure is logged: an Event is never worth stopping for, and in a namespace
    /// that is being deleted none can be made.
    pub async fn publish(&self, run: &Run, note: &Note) {
        let news = note.news();
        let event = self.event(run, &news);
        let namespace = run.namespace().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let params = PostParams::default();
        let posted = tokio::time::timeout(TIMEOUT, api.create(&params, &event)).await;
        match posted {
            Ok(Ok(_)) | Err(_) => {}
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => {}
            Ok(Err(error)) => {
                tracing::warn!(
                    k8s.namespace.name = %namespace, run.name = %run.name_any(), event.reason = news.reason.as_str(),
                    error = %chain(&error), "failed to publish an Event"
                );
            }
        }
    }

    fn event(&self, run: &Run, news: &News) -> Event {
        let uid = run.uid().unwrap_or_default();
        let hash = backoff::seed(&format!("{uid}/{}/{}", news.reason.as_str(), news.once), 0);
        let now = jiff::Timestamp::now();
        // An Event name has at most 253 characters.
        let stem: String = run.name_any().chars().take(200).collect();
        let reference: ObjectReference = run.object_ref(&());
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{hash:016x}", stem.trim_end_matches(['.', '-']))),
                namespace: run.namespace(),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            type_: Some(news.reason.kind().as_str().to_owned()),
            reason: Some(news.reason.as_str().to_owned()),
            action: Some(news.reason.action().to_owned()),
            note: Some(news.message.clone()),
            reporting_controller: Some(names::GROUP.to_owned()),
            reporting_instance: Some(self.process.chars().take(128).collect()),
            regarding: Some(reference),
            ..Event::default()
        }
    }
}
