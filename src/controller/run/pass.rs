//! One pass over one Run, whether its object exists or is deleted: the state that its steps share, and its result.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Api;

use crate::api::{Run, RunStatus};
use crate::controller::{
    context::Context,
    state::{call_limiter::CallPermit, runs::RunEntry},
};

/// State that the steps of a pass share.
pub(crate) struct Pass<'a> {
    pub(crate) ctx: &'a Arc<Context>,
    pub(crate) entry: &'a Arc<RunEntry>,
    /// The newest version of the object.
    pub(crate) run: Arc<Run>,
    /// The permit that the pass's call waited for.
    pub(crate) permit: Option<CallPermit>,
    /// The object is deleted without having been released: nothing can be written.
    pub(crate) deleted: bool,
    /// The last status that this pass wrote.
    pub(crate) written: Option<RunStatus>,
}

/// Result of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassResult {
    /// Nothing to do before this time or the next change.
    Until(Option<Timestamp>),
    /// A call is in flight or waits for its permit; its end requests a reconcile.
    Call,
    /// The object is released.
    Released,
}

impl<'a> Pass<'a> {
    /// A pass over the newest known version of the object.
    pub(crate) fn new(
        ctx: &'a Arc<Context>,
        entry: &'a Arc<RunEntry>,
        run: Arc<Run>,
        permit: Option<CallPermit>,
    ) -> Self {
        Self {
            ctx,
            entry,
            run,
            permit,
            deleted: false,
            written: None,
        }
    }

    /// The API for the object's writes.
    pub(crate) fn api(&self) -> Api<Run> {
        Api::namespaced(self.ctx.client.clone(), &self.entry.namespace)
    }
}
