//! A Run as the API server holds it now, past the watch: asked for only where something contradicts what
//! the watch has shown.

use std::sync::Arc;
use std::time::Duration;

use kube::{Api, Resource, api::ListParams};

use crate::api::Run;

use super::{
    context::{Context, Guarded},
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
    let api: Api<Guarded<Run>> = Api::namespaced(ctx.client.clone(), &entry.namespace);
    let this = ListParams::default().fields(&format!("metadata.name={}", entry.name));
    let listed = match tokio::time::timeout(TIMEOUT, api.list(&this)).await {
        Ok(Ok(listed)) => listed,
        Ok(Err(error)) => {
            tracing::warn!(
                k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
                error = %chain(&error), "failed to look for a Run"
            );
            return Found::Unknown;
        }
        Err(_) => return Found::Unknown,
    };
    let mut items = listed.items.into_iter();
    let this = items.find(|run| run.meta().uid.as_deref() == Some(&entry.uid));
    this.map_or(Found::Gone, |run| Found::There(run.0.ok().map(Arc::new)))
}
