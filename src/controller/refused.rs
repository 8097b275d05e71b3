//! Writes that the API server refuses: an admission webhook, a policy, a limit, a schema of another version.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;

use crate::clock::now;
use crate::decide::{EventDraft, truncate::MAX_ERROR, truncate::escaped};
use crate::service::Client;

use super::{apiserver::patch::WriteError, context::Context};

/// A write that failed for the `times`th time in a row.
pub(crate) struct Refused<'a> {
    /// The part of the object.
    pub(crate) writes: &'static str,
    pub(crate) error: &'a WriteError,
    pub(crate) times: u32,
    /// What the refused status would show.
    pub(crate) condition: Option<&'a Condition>,
    /// The Workspace's, which knows the texts to hide.
    pub(crate) client: Option<&'a Client>,
}

impl Refused<'_> {
    /// Counts and publishes it. Returns the API server's sentence; `None` if the write is not refused.
    pub(crate) fn tell<K>(&self, ctx: &Context, object: &K) -> Option<String>
    where
        K: Resource<DynamicType = ()>,
    {
        let status = self.error.refusal(self.times)?;
        let controller = K::kind(&()).to_lowercase();
        ctx.metrics
            .write_refused(controller, self.writes, status.code);
        let hide = |client: &Client| client.without_secrets(&status.message);
        let sentence = self.client.map_or_else(|| status.message.clone(), hide);
        let sentence = escaped(&sentence, MAX_ERROR).into_owned();
        let draft = EventDraft::write_refused(self.writes, &sentence, self.condition, now());
        ctx.recorder.publish(object, &draft);
        Some(sentence)
    }
}
