//! The steps of a pass: decides and acts until nothing is left to do now. The only executor of a Run's effects.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{RunStatus, WorkspaceKey};
use crate::clock::now;
use crate::controller::{
    apiserver::patch::{self, WriteError},
    leader,
    state::workspaces::WorkspaceState,
};
use crate::decide::{Decision, time::later};

use super::{
    effects::{self, EffectResult},
    pass::{Pass, PassResult},
    policy, streams,
};

/// Step limit of a pass. A Run's whole life takes fewer; more means that two parts of the policy disagree, and a pause
/// avoids a loop.
const STEPS: usize = 24;
/// Pause after the step limit was reached.
const AFTER_LIMIT: Duration = Duration::from_mins(1);

/// The Workspace of a step, and the decision made with it.
struct Decided {
    key: WorkspaceKey,
    workspace: Arc<WorkspaceState>,
    decision: Decision,
}

impl Pass<'_> {
    /// Takes steps until nothing is left to do now.
    pub(crate) async fn run(mut self) -> Result<PassResult, WriteError> {
        for _ in 0..STEPS {
            if let Some(rest) = self.step().await? {
                return Ok(rest);
            }
        }
        let entry = self.entry;
        tracing::error!(
            k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
            steps = STEPS, "step limit reached; requeueing"
        );
        Ok(PassResult::Until(Some(later(now(), AFTER_LIMIT))))
    }

    /// One decision, and its first action. `None`: decide again.
    async fn step(&mut self) -> Result<Option<PassResult>, WriteError> {
        // 1. A process that doesn't lead changes nothing. At shutdown, outcomes are still written.
        if !self.ctx.leading.holds() {
            return Ok(Some(PassResult::Until(Some(later(now(), leader::AGAIN)))));
        }
        // 2. Decide, by the newest version of the object and the present state of its Workspace.
        let decided = self.decide();
        // 3. Open or close the event stream.
        self.follow(&decided);
        // 4. Write the status if it differs, before any effect, and publish Events for what it shows now.
        if self.write_status(&decided).await? {
            return Ok(None);
        }
        self.publish(&decided);
        // 5. Carry out the effect.
        let Some(effect) = &decided.decision.effect else {
            return Ok(Some(PassResult::Until(decided.decision.requeue_at)));
        };
        if !self.ctx.may_begin() {
            return Ok(Some(PassResult::Until(Some(later(now(), leader::AGAIN)))));
        }
        match effects::carry_out(self, &decided.key, &decided.workspace, effect).await? {
            EffectResult::Object(changed) => self.run = changed,
            EffectResult::Learned => {}
            EffectResult::Call => return Ok(Some(PassResult::Call)),
            EffectResult::Released => return Ok(Some(PassResult::Released)),
        }
        Ok(None)
    }

    fn decide(&self) -> Decided {
        let key = WorkspaceKey::of(&self.run.spec.workspace_ref(), &self.entry.namespace);
        let workspace = self.ctx.workspace_state(&key);
        let decision = policy::decide(self, &key, &workspace);
        Decided {
            key,
            workspace,
            decision,
        }
    }

    fn follow(&self, decided: &Decided) {
        if !self.deleted {
            let Decided {
                key,
                workspace,
                decision,
            } = decided;
            streams::follow(self, key, workspace, decision.follow);
        }
    }

    /// Writes the status if it differs from the stored one. A status just written is not written again if the API
    /// server stores it differently: an older CRD drops fields it doesn't define.
    async fn write_status(&mut self, decided: &Decided) -> Result<bool, WriteError> {
        let again = |status: &&RunStatus| self.written.as_ref() == Some(*status);
        let due = decided.decision.status_due(&self.run, self.deleted);
        let Some(status) = due.filter(|status| !again(status)) else {
            return Ok(false);
        };
        let written = patch::write_status(&self.api(), &self.run, status).await?;
        self.written = Some(status.clone());
        self.run = self.entry.wrote(written);
        let with = policy::learning(self.ctx, self.entry, &decided.workspace);
        let shown = decided.decision.shown;
        self.entry
            .with(|state| state.run.status_written(shown, with));
        self.publish(decided);
        self.log_status();
        Ok(true)
    }

    fn publish(&self, decided: &Decided) {
        policy::publish(self, decided.decision.events_due(self.deleted));
    }

    fn log_status(&self) {
        let status = self.run.status.as_ref();
        tracing::info!(
            k8s.namespace.name = %self.entry.namespace,
            run.name = %self.entry.name,
            run.uid = %self.entry.uid,
            run.id = status.and_then(|s| s.run_id.as_deref()),
            run.phase = status.and_then(|s| s.phase).map(tracing::field::debug),
            run.state = status.and_then(|s| s.state.as_deref()),
            request.id = status.and_then(|s| s.request_id.as_deref()),
            "status written"
        );
    }
}
