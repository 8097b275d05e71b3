//! The operator of one life: started again when it has been killed.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::plan::Plan;
use super::trial::{PATIENCE, POLL, Told, text};
use crate::support::{Operator, Recipe};

/// Exit code of a shell for SIGKILL.
const KILLED: i32 = 137;
/// By SIGTERM, which the operator registers for soon after its start.
const TERMINATED: i32 = 143;

/// Starts the operator, and again when it has been killed. None is left when this is dropped.
pub(super) struct Keeper {
    stop: CancellationToken,
    plan: Arc<Plan>,
    task: JoinHandle<Told>,
}

impl Keeper {
    /// Starts the first.
    pub(super) fn begin(recipe: Recipe, plan: &Arc<Plan>) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(keep(recipe, Arc::clone(plan), stop.clone()));
        Self {
            stop,
            plan: Arc::clone(plan),
            task,
        }
    }

    /// Ends it in order.
    pub(super) async fn stop(mut self) -> Told {
        self.stop.cancel();
        (&mut self.task).await.map_err(text)?
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
        self.plan.ends();
    }
}

/// A fault kills once; any other end is a defect.
async fn keep(recipe: Recipe, plan: Arc<Plan>, stop: CancellationToken) -> Told {
    plan.lives(Operator::launch(&recipe));
    let mut may_be_killed = plan.is_deadly();
    loop {
        let code = plan.with_operator(Operator::exit_code).flatten();
        match code {
            Some(KILLED) if may_be_killed => {
                may_be_killed = false;
                plan.lives(Operator::launch(&recipe));
            }
            Some(code) => return Err(format!("the operator ended unasked with code {code}")),
            None if stop.is_cancelled() => break,
            None => tokio::time::sleep(POLL).await,
        }
    }
    plan.with_operator(Operator::asked_to_end);
    let ended = async {
        loop {
            if let Some(code) = plan.with_operator(Operator::exit_code).flatten() {
                return code;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    match tokio::time::timeout(PATIENCE, ended).await {
        Ok(0) => Ok(()),
        // What it does last is a point too.
        Ok(KILLED) if may_be_killed => Ok(()),
        // The fault came last: its successor was starting, and had not registered for the signal.
        Ok(TERMINATED) if plan.is_deadly() && !may_be_killed => Ok(()),
        other => Err(format!("the operator's end was {other:?}, and not 0")),
    }
}
