//! One life of one Run, with at most one fault in it.

use std::sync::Arc;
use std::time::Duration;

use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, Resource};
use serde_json::{Value, json};

use run_operator::api::{Run, RunStatus};

use super::names;
use super::plan::Plan;
use super::scenario::Scenario;
use super::supervisor::Keeper;
use super::table::Case;
use crate::support::{Proxy, Setup, World};
use test_cluster::ControlPlane;

/// Generous: many trials share few cores, and a lost answer costs the operator's backoff, and that of a
/// deletion by TTL a minute.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);
pub(super) const POLL: Duration = Duration::from_millis(20);
pub(super) const RUN: &str = "train";

/// A result with the failure as a sentence.
pub(super) type Told<T = ()> = Result<T, String>;

/// Flags for an election that ends soon after a kill, and for renewals that tolerate the longest delay.
const ELECTION: [&str; 3] = [
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=7s",
    "--leader-elect-retry-period=1s",
];

/// A namespace, a service of its own, and an operator behind two proxies that is restarted when it ends. Taken apart
/// from top to bottom.
pub(super) struct Trial {
    operator: Option<Keeper>,
    pub(super) plan: Arc<Plan>,
    to_api_server: Proxy,
    to_service: Proxy,
    pub(super) world: World,
    /// The Run's uid.
    pub(super) uid: String,
    /// The number of points passed before the scenario's own part.
    pub(super) mark: usize,
}

impl Trial {
    /// Begins.
    pub(super) async fn begin(scenario: Scenario, fault: Option<&Case>) -> Self {
        let plan = Plan::new(fault.cloned());
        let to_api_server = Proxy::to_api_server(ControlPlane::shared().await).await;
        to_api_server.rule(plan.rule(names::at_api_server));
        let world = World::unattended(Setup {
            through: Some(to_api_server.kubeconfig().to_owned()),
            no_base_url: true,
            elected: (scenario == Scenario::Elected).then_some(&ELECTION),
            ..Setup::default()
        })
        .await;
        // Whatever happens, a slot that is free is found again.
        let one = json!({"maxActiveRuns": 1});
        world.patch_workspace("default", one).await;
        world.service.post("hold", json!({})).await;
        let to_service = Proxy::to_service(world.service.address());
        to_service.rule(plan.rule(|asked| Some(names::at_service(asked))));
        let mut recipe = world.recipe();
        let base_url = to_service.base_url();
        let debug = "info,run_operator=debug";
        let args = ["--base-url", &base_url, "--log-filter", debug];
        recipe.args.extend(args.map(str::to_owned));
        Self {
            operator: Some(Keeper::begin(recipe, &plan)),
            plan,
            to_api_server,
            to_service,
            world,
            uid: String::new(),
            mark: 0,
        }
    }

    /// Begins this scenario's own part.
    pub(super) fn mark(&mut self) {
        self.mark = self.plan.points().len();
    }

    pub(super) async fn create(&mut self, spec: Value) {
        let run = self.world.create_run(RUN, spec).await;
        self.uid = run.metadata.uid.unwrap_or_default();
    }

    pub(super) async fn patch(&self, patch: Value) {
        self.world.patch_run(RUN, patch).await;
    }

    pub(super) async fn delete(&self) {
        self.world.delete_run(RUN).await;
    }

    /// Waits until `wanted` is true of the status.
    pub(super) async fn status(
        &self,
        what: &str,
        wanted: impl Fn(&RunStatus) -> bool + Send,
    ) -> Told {
        let fits = |run: Option<&Run>| run.and_then(|run| run.status.as_ref()).is_some_and(&wanted);
        self.until(self.world.runs(), RUN, what, fits).await
    }

    /// Waits until the status shows this state of the service.
    pub(super) async fn at(&self, state: &str) -> Told {
        self.status(state, |status| status.state.as_deref() == Some(state))
            .await
    }

    /// Waits until `fits` is true of an object.
    pub(super) async fn until<K>(
        &self,
        api: Api<K>,
        name: &str,
        what: &str,
        fits: impl Condition<K>,
    ) -> Told
    where
        K: Resource
            + Clone
            + std::fmt::Debug
            + Send
            + serde::Serialize
            + serde::de::DeserializeOwned
            + 'static,
    {
        let seen = await_condition(api.clone(), name, fits);
        match tokio::time::timeout(PATIENCE, seen).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(text(error)),
            Err(_) => {
                let now = api.get_opt(name).await.map_err(text)?;
                let now = serde_json::to_string(&now).map_err(text)?;
                Err(format!("{name} is not {what} after the wait; it is {now}"))
            }
        }
    }

    /// Waits until the Run no longer exists.
    pub(super) async fn gone(&self) -> Told {
        let gone = |run: Option<&Run>| run.is_none();
        self.until(self.world.runs(), RUN, "gone", gone).await
    }

    /// Waits until the operator has let the Run go, which stays.
    pub(super) async fn released(&self) -> Told {
        let released = |run: Option<&Run>| run.is_some_and(|run| !crate::support::held(run));
        self.until(self.world.runs(), RUN, "released", released)
            .await
    }

    /// Waits until `look` sees something.
    pub(super) async fn look<T>(
        &self,
        what: &str,
        mut look: impl AsyncFnMut() -> Option<T>,
    ) -> Told<T> {
        let seen = async {
            loop {
                if let Some(seen) = look().await {
                    return seen;
                }
                tokio::time::sleep(POLL).await;
            }
        };
        let seen = tokio::time::timeout(PATIENCE, seen).await;
        seen.map_err(|_| format!("waited too long for {what}"))
    }

    /// The run at the service takes its next step.
    pub(super) async fn advance(&self) -> Told {
        let mut runs = self.world.service.runs().await;
        runs.retain(|run| run["idempotencyKey"] == *self.uid);
        let [run] = runs.as_slice() else {
            return Err(format!("{} runs of it at the service", runs.len()));
        };
        let id = run["runId"].as_str().unwrap_or_default();
        let path = format!("runs/{id}/advance");
        self.world.service.post(&path, json!({})).await;
        Ok(())
    }

    /// Waits until the operator that was killed is back, and has checked the Workspace, if there is one: it has
    /// then seen what there is.
    pub(super) async fn back(&self) -> Told {
        let workspaces = self.world.workspaces();
        self.look("the operator that is back", async || {
            let points = self.plan.since_the_next()?;
            let checked = |point: &String| point.starts_with("service.version ");
            let gone = matches!(workspaces.get_opt("default").await, Ok(None));
            (gone || points.iter().any(checked)).then_some(())
        })
        .await
    }

    /// Waits until what comes twice has come again.
    pub(super) async fn repeated(&self) -> Told {
        self.look("what comes again", async || {
            let times = self.to_api_server.repeated() + self.to_service.repeated();
            (times > 0).then_some(())
        })
        .await
    }

    /// Stops the operator in order, so that it sends its remaining Events.
    pub(super) async fn stop(&mut self) -> Told {
        let Some(operator) = self.operator.take() else {
            return Ok(());
        };
        operator.stop().await
    }
}

/// An error as text.
pub(super) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
