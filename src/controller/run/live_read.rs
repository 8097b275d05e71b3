//! Live read of a Run from the API server, bypassing the watch. Used only where something contradicts the watch.

use std::sync::Arc;
use std::time::Duration;

use kube::{Api, Resource};

use crate::api::Run;
use crate::controller::{
    apiserver::{self, Maybe},
    context::Context,
    state::runs::RunEntry,
};
use crate::util::error_chain;

/// Time limit of a live read.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Result of a live read.
pub(crate) enum Found {
    /// The object exists; `None` if it can't be decoded.
    Exists(Option<Arc<Run>>),
    /// No object, or another with the same name: this one never comes back.
    Deleted,
    /// No answer.
    Unknown,
}

/// Reads this Run with a list of one name. The list needs no permission beyond the watch's, and is as fresh as a get.
pub(crate) async fn read(ctx: &Context, entry: &RunEntry) -> Found {
    let api: Api<Run> = Api::namespaced(ctx.client.clone(), &entry.namespace);
    let named = format!("metadata.name={}", entry.name);
    let mut found: Option<Maybe<Run>> = None;
    let list = apiserver::list(&api, Some(&named), TIMEOUT, |run| {
        let this = run.meta().uid.as_deref() == Some(&entry.uid);
        found = this.then_some(run);
        this
    });
    if let Err(error) = list.await {
        tracing::warn!(
            k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
            error = %error_chain(&error), "failed to read a Run live"
        );
        return Found::Unknown;
    }
    found.map_or(Found::Deleted, |run| Found::Exists(run.good().cloned()))
}
