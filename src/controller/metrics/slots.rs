//! The metrics of the slots that `maxActiveRuns` limits, by kind and namespace of the Workspaces.

use std::borrow::Cow;
use std::time::Duration;

use crate::api::{WorkspaceKey, workspace::RunLimits};
use crate::decide::queue::Usage;

use super::{Labels, Metrics, gauge};

impl Metrics {
    /// Sets the gauges of the Workspaces with a limit, summed by kind and namespace.
    pub(crate) fn set_slots<'a>(&self, of: impl Iterator<Item = (&'a WorkspaceKey, Usage)>) {
        let families = [&self.active_runs, &self.queued_runs, &self.max_active_runs];
        for family in families {
            family.clear();
        }
        for (key, usage) in of {
            let limits = usage.limits.unwrap_or_default();
            if limits == RunLimits::default() {
                continue;
            }
            self.begin_slots(key);
            let max = limits.all.unwrap_or_default();
            for (family, count) in families.iter().zip([usage.active, usage.queued, max]) {
                family
                    .get_or_create(&of_workspace(key))
                    .inc_by(gauge(count));
            }
        }
    }

    /// Begins the series of a Workspace with a limit at zero.
    pub fn begin_slots(&self, key: &WorkspaceKey) {
        let of = of_workspace(key);
        for family in [&self.active_runs, &self.queued_runs, &self.max_active_runs] {
            family.get_or_create_owned(&of);
        }
        self.queue_seconds.get_or_create_owned(&of);
    }

    pub(crate) fn left_queue(&self, key: &WorkspaceKey, waited: Duration) {
        let seconds = self.queue_seconds.get_or_create(&of_workspace(key));
        seconds.observe(waited.as_secs_f64());
    }
}

fn of_workspace(key: &WorkspaceKey) -> Labels<2> {
    let namespace = Cow::Owned(key.namespace.clone());
    [
        ("kind", key.kind.as_str().into()),
        ("workspace_namespace", namespace),
    ]
}
