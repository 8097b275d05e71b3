//! A Run as the API server holds it now, past the watch: asked for only where something contradicts what
//! the watch has shown.

use std::sync::Arc;
use std::time::Duration;

use kube::{Api, Resource};

use crate::api::Run;

use super::{
    apiserver::{self, Guarded},
    context::Context,
    objects::Entry,
    watch::chain,
};

/// A look that takes longer is given up.
const TIMEOUT: Duration = Duration::from_secs(15);

/// What a look found.
pub(super) enum Found {
    /// This very object, as far as it can be read.
    There(Option<Arc<Run>>),
    /// No object, or another of the same name: this one never comes back.
    Gone,
    /// No answer.
    Unknown,
}

/// Looks for this very Run. By a list of one name, which needs no right that the operator doesn't have for
/// its watch, and which is as fresh as a get.
pub(super) async fn look(ctx: &Context, entry: &Entry) -> Found {
    let api: Api<Run> = Api::namespaced(ctx.client.clone(), &entry.namespace);
    let named = format!("metadata.name={}", entry.name);
    let mut found: Option<Guarded<Run>> = None;
    let list = apiserver::list(&api, Some(&named), |run| {
        let this = run.meta().uid.as_deref() == Some(&entry.uid);
        found = this.then_some(run);
        this
    });
    match tokio::time::timeout(TIMEOUT, list).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(
                k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
                error = %chain(&error), "failed to look for a Run"
            );
            return Found::Unknown;
        }
        Err(_) => return Found::Unknown,
    }
    found.map_or(Found::Gone, |run| Found::There(run.0.ok().map(Arc::new)))
}
