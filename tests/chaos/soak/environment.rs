//! A world with one operator that runs through everything, and Runs by the hundred.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use run_operator::api::Run;
use serde_json::{Value, json};

use super::sample::{Counted, Sample};
use crate::support::{Operator, World, eventually, eventually_after};
use crate::tcp_proxy::{Wire, wired};
use test_cluster::ControlPlane;

/// Patience for each Run that is waited for, on a machine that compiles at the same time.
const EACH: Duration = Duration::from_secs(1);
/// Time in which every Event is sent that waits: 4096, 50 a second.
const EVENTS: Duration = Duration::from_secs(82);
/// Looks in a row at an unchanged number of Events, after which none waits: one is sent every 20 ms.
const LOOKS: u32 = 20;
/// Requests of ours to the API server at the same time.
const HANDS: usize = 16;

/// The world.
pub(crate) struct Pond {
    pub(crate) world: World,
    pub(crate) to_service: Wire,
    pub(crate) operator: Operator,
}

/// The expected Runs at the service and in the cluster: by state and phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct There {
    pub(crate) active: u64,
    pub(crate) succeeded: u64,
}

impl Pond {
    pub(crate) async fn dug(control_plane: &'static ControlPlane) -> Self {
        let (world, to_service) = wired(control_plane).await;
        let mut recipe = world.recipe();
        recipe.args = to_service.args("info");
        // Freed pages are given back at once: resident memory is what is in use, at every moment.
        let decay = ("_RJEM_MALLOC_CONF", "dirty_decay_ms:0".into());
        recipe.variables.push(decay);
        let operator = Operator::start(&recipe).await;
        world.workspace_ready("default", "True", "Verified").await;
        Self {
            world,
            to_service,
            operator,
        }
    }

    /// Creates so many Runs; every other one ends without a cancel.
    pub(crate) async fn create(&self, wave: &str, count: u64) {
        let runs = self.world.runs();
        stream::iter(0..count)
            .for_each_concurrent(HANDS, async |n| {
                let ends = if n % 2 == 0 { "succeeded" } else { "never" };
                let simulate = json!({"outcome": ends, "runTimeMs": 200, "logEvents": 2});
                let run = manifest(&format!("{wave}-{n}"), &simulate);
                runs.create(&PostParams::default(), &run).await.unwrap();
            })
            .await;
    }

    /// Waits until the operator shows so many Runs that continue and that have succeeded; `more` is the time
    /// that an outage adds.
    pub(crate) async fn shows(&self, wanted: There, more: Duration) {
        let what = format!("the operator shows {wanted:?}");
        let patience = more + EACH * u32::try_from(wanted.active + wanted.succeeded).unwrap();
        eventually_after(patience, &what, async || {
            let counted = Counted::of(&self.operator).await;
            let runs = |phase| counted.sum("run_operator_runs", &[("phase", phase)]);
            let there = There {
                active: runs("Active"),
                succeeded: runs("Succeeded"),
            };
            let others = runs("Pending") + runs("Cancelling") + runs("Failed") + runs("Cancelled");
            if there == wanted && others == 0 {
                Ok(())
            } else {
                Err(format!("{there:?} and {others} others"))
            }
        })
        .await;
    }

    /// Deletes every Run, and waits until nothing is left of any.
    pub(crate) async fn delete_all(&self) -> Sample {
        let runs = self.world.runs();
        let all = runs.list_metadata(&ListParams::default()).await.unwrap();
        let patience = EACH * u32::try_from(all.items.len()).unwrap();
        let names = all.items.into_iter().filter_map(|run| run.metadata.name);
        stream::iter(names)
            .for_each_concurrent(HANDS, async |name| {
                runs.delete(&name, &DeleteParams::default()).await.unwrap();
            })
            .await;
        let one = ListParams::default().limit(1);
        eventually_after(patience, "every Run is gone", async || {
            let left = runs.list_metadata(&one).await;
            let left = left.map_err(|error| error.to_string())?;
            let more = left.metadata.remaining_item_count.unwrap_or_default();
            if left.items.is_empty() {
                Ok(())
            } else {
                Err(format!("{} and {more} more", left.items.len()))
            }
        })
        .await;
        self.quiet().await
    }

    /// Waits until the operator has nothing to do and remembers nothing.
    pub(crate) async fn quiet(&self) -> Sample {
        eventually("the operator is quiet", async || {
            let sample = Sample::of(&self.operator).await;
            if sample.quiet() {
                Ok(sample)
            } else {
                Err(format!("{sample:?}"))
            }
        })
        .await
    }

    /// Waits until unused connections are closed, all Events are sent, and there is nothing more than before the first
    /// Run; the number of connections to the API server may vary by one or two.
    pub(crate) async fn rests(&self, before: &Sample) -> Sample {
        let patience = EVENTS + Duration::from_mins(1);
        let (mut events, mut unchanged) = (0, 0);
        eventually_after(patience, "the operator rests", async || {
            // Not by the metrics, which are rendered once a second.
            let now = self.events().await?;
            unchanged = if now == events { unchanged + 1 } else { 0 };
            events = now;
            let sample = Sample::of(&self.operator).await;
            let closed = sample.files <= before.files + 2 && sample.tasks <= before.tasks + 2;
            if closed && sample.quiet() && unchanged >= LOOKS {
                Ok(sample)
            } else {
                Err(format!("{sample:?}, {events} Events"))
            }
        })
        .await
    }

    /// Number of Events in the world's namespace.
    async fn events(&self) -> Result<i64, String> {
        let client = self.world.client.clone();
        let events: Api<Event> = Api::namespaced(client, &self.world.namespace);
        let one = events.list_metadata(&ListParams::default().limit(1)).await;
        let one = one.map_err(|error| error.to_string())?;
        let first = i64::try_from(one.items.len()).unwrap();
        Ok(first + one.metadata.remaining_item_count.unwrap_or_default())
    }

    /// Every run at the service has ended, and there are so many: one for each Run that was created.
    pub(crate) async fn one_run_each(&self, created: u64) {
        let stats = self.world.service.get("stats").await;
        assert_eq!(stats["runsCreated"], created, "{stats}");
        assert_eq!(stats["idempotencyKeysSeen"], created, "{stats}");
        let by_state = stats["runsByState"].as_object().unwrap();
        let live: Vec<_> = by_state
            .iter()
            .filter(|(state, _)| !["succeeded", "failed", "cancelled"].contains(&state.as_str()))
            .collect();
        assert!(live.is_empty(), "live runs: {live:?}");
    }
}

fn manifest(name: &str, simulate: &Value) -> Run {
    let run = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
        "metadata": {"name": name},
        "spec": {"workload": {"image": "ghcr.io/acme/train:1.4", "simulate": simulate}},
    });
    serde_json::from_value(run).unwrap()
}
