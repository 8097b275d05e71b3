//! Long outages while many Runs exist: failing calls are bounded by the backoff, not by the number of Runs, everything
//! is taken up afterwards, and of what was deleted nothing is left. What a hundred thousand past Runs weigh is measured
//! by `make bench` (`xtask/src/bench/soak.rs`).

use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::support::{
    Operator, Plane, Series, Setup, Wire, World, eventually, eventually_after, own_control_plane,
};

/// Patience for each Run that is waited for, on a machine that compiles at the same time.
const EACH: Duration = Duration::from_secs(1);
/// Time in which connections that nobody uses are closed.
const IDLE: Duration = Duration::from_mins(3);
/// Requests of ours to the API server at the same time.
const HANDS: usize = 16;
/// Calls in flight at once (docs/limits.md).
const UNDER_WAY: u64 = 32;
/// Kubernetes Events of a Run that succeeds, and how often each is tried (docs/events.md). They wait for their turn, so
/// that an outage meets those of Runs that were there before it.
const EVENTS: u64 = 2;
const TRIES: u64 = 3;
/// What an operator without Runs has none of.
const BUSY: [&str; 5] = [
    "run_operator_remembered_runs",
    "run_operator_open_streams",
    "controller_runtime_active_workers",
    "run_operator_calls_waiting",
    "run_operator_calls_in_flight",
];
/// What it has no more of than before its first Run; the connections to the API server may vary by one or two.
const HELD: [&str; 2] = ["process_open_fds", "run_operator_tasks"];

/// Proves: F-outage, B-ended
#[tokio::test]
async fn futile_calls_in_an_outage_do_not_grow_with_the_runs_and_nothing_is_left() {
    let _turn = crate::TURN.lock().await;
    let (seconds, runs) = if crate::full() { (120, 200) } else { (6, 60) };
    let pond = Pond::dug().await;
    let before = pond.held().await;
    pond.outage_of_the_service(seconds, runs).await;
    pond.deletes_all().await;
    pond.outage_of_the_api_server(seconds, runs).await;
    pond.deletes_all().await;
    let stats = pond.world.service.get("stats").await;
    assert_eq!(stats["runsCreated"], 2 * runs, "{stats}");
    assert_eq!(stats["idempotencyKeysSeen"], 2 * runs, "{stats}");
    eventually("the operator is quiet", async || match pond.busy().await {
        None => Ok(()),
        Some(busy) => Err(busy),
    })
    .await;
    // As long as connections are kept for the next request.
    if crate::full() {
        eventually_after(IDLE, "the operator holds what it held", async || {
            let now = pond.held().await;
            let more = now
                .iter()
                .zip(before)
                .any(|(now, before)| *now > before + 2);
            if more {
                Err(format!("{now:?}, and before {before:?}"))
            } else {
                Ok(())
            }
        })
        .await;
    }
}

/// A world with a wire to its service, on a control plane of its own.
struct Pond {
    operator: Operator,
    to_service: Wire,
    world: World,
}

impl Pond {
    async fn dug() -> Self {
        let world = World::unattended(Setup {
            plane: Plane::Own(own_control_plane().await),
            ..Setup::default()
        })
        .await;
        let to_service = Wire::to(world.service.address());
        let mut recipe = world.recipe();
        let base_url = format!("http://{}/api/v1", to_service.address());
        let args = ["--base-url", &base_url, "--log-filter", "info"];
        recipe.args = args.map(str::to_owned).into();
        let operator = Operator::start(&recipe).await;
        world.workspace_ready("default", "True", "Verified").await;
        Self {
            operator,
            to_service,
            world,
        }
    }

    /// The service refuses connections. As many Runs again are created meanwhile.
    async fn outage_of_the_service(&self, seconds: u64, runs: u64) {
        let failed = async || {
            self.sum("run_operator_service_requests_total", &[("code", "none")])
                .await
        };
        self.create("before", runs / 2).await;
        self.shows([runs / 4, runs / 4], 0).await;
        let before = failed().await;
        self.to_service.refuse();
        let began = Instant::now();
        self.create("meanwhile", runs / 2).await;
        self.world
            .workspace_ready("default", "False", "ServiceUnavailable")
            .await;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let (failed, took) = (failed().await - before, began.elapsed().as_secs());
        self.to_service.open();
        let taken_up = self.shows([runs / 2, runs / 2], took).await;
        // Those in flight, and one in half a second until the check has failed and it alone is repeated.
        let at_most = UNDER_WAY + 2 * (took + 1);
        eprintln!(
            "outages: {took} s without the service: {failed} failed calls of {at_most}; {taken_up} s to take up"
        );
        assert!(failed <= at_most, "{failed} failed calls of {at_most}");
    }

    /// The API server is down. Runs end meanwhile, and no write succeeds.
    async fn outage_of_the_api_server(&self, seconds: u64, runs: u64) {
        let active = runs / 2;
        self.create("silent", runs).await;
        self.shows([active, runs - active], 0).await;
        let service = &self.world.service;
        let running = eventually("every other run is running", async || {
            let mut all = service.runs().await;
            all.retain(|run| run["state"] == "running");
            if all.len() as u64 == active {
                Ok(all)
            } else {
                Err(all.len())
            }
        })
        .await;
        // Events apart: nothing else is posted.
        let failed = async || {
            let of = async |labels: &[(&str, &str)]| {
                self.sum("run_operator_api_requests_total", labels).await
            };
            let events = of(&[("code", "none"), ("method", "POST")]).await;
            [of(&[("code", "none")]).await - events, events]
        };
        let before = failed().await;
        self.world.control_plane.stop_apiserver().unwrap();
        let began = Instant::now();
        // What was active ends now, each with an event that can't be mirrored.
        for run in running {
            let ended = json!({"state": "succeeded"});
            let path = format!("runs/{}/state", run["runId"].as_str().unwrap());
            service.post(&path, ended).await;
        }
        eventually("the operator notices", async || {
            let writes = failed().await[0] - before[0];
            if writes >= active {
                Ok(())
            } else {
                Err(writes)
            }
        })
        .await;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let after = failed().await;
        let (writes, events) = (after[0] - before[0], after[1] - before[1]);
        let took = began.elapsed().as_secs();
        self.world.control_plane.start_apiserver().await.unwrap();
        let taken_up = self.shows([0, runs], took).await;
        // A write for each Run, repeated with a pause that doubles; and watches and the Secret.
        let doublings = u64::from((4 * (took + 1)).ilog2()) + 2;
        let at_most = (active + 8) * doublings;
        eprintln!(
            "outages: {took} s without the API server: {writes} failed requests of {at_most}; {taken_up} s to take up"
        );
        assert!(writes <= at_most, "{writes} failed requests of {at_most}");
        let at_most = runs * EVENTS * TRIES;
        assert!(events <= at_most, "{events} Events of {at_most}");
    }

    /// Creates so many Runs, of which every other one ends without a cancel.
    async fn create(&self, what: &str, count: u64) {
        let all = stream::iter(0..count).for_each_concurrent(HANDS, async |n| {
            let ends = if n % 2 == 0 { "succeeded" } else { "never" };
            let simulate = json!({"outcome": ends, "runTimeMs": 200, "logEvents": 2});
            self.world.simulate(&format!("{what}-{n}"), simulate).await;
        });
        all.await;
    }

    /// Deletes every Run, and waits until none is there, and none lives at the service.
    async fn deletes_all(&self) {
        let runs = self.world.runs();
        let list = ListParams::default();
        let all = runs.list_metadata(&list).await.unwrap().items;
        let patience = EACH * u32::try_from(all.len()).unwrap();
        let names = all.into_iter().filter_map(|run| run.metadata.name);
        let deleted = stream::iter(names).for_each_concurrent(HANDS, async |name| {
            runs.delete(&name, &DeleteParams::default()).await.unwrap();
        });
        deleted.await;
        eventually_after(patience, "every Run is gone", async || {
            let left = runs.list_metadata(&list).await;
            match left.map_err(|error| error.to_string())?.items.len() {
                0 => Ok(()),
                left => Err(format!("{left} Runs")),
            }
        })
        .await;
        for run in self.world.service.runs().await {
            let state = run["state"].as_str().unwrap();
            assert!(["succeeded", "cancelled"].contains(&state), "lives: {run}");
        }
        // Else the next Runs might be taken for these: what is scraped may be a second old.
        self.shows([0, 0], 0).await;
    }

    /// The sum of a metric's series that have these labels.
    async fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let fits = |one: &Series| {
            let has =
                |(label, value): &(&str, &str)| one.labels.get(*label).is_some_and(|v| v == value);
            labels.iter().all(has)
        };
        let sum = self.operator.sum(name, fits).await;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counts: whole, not negative, far below 2^53"
        )]
        let sum = sum.round() as u64;
        sum
    }

    async fn held(&self) -> [u64; 2] {
        [self.sum(HELD[0], &[]).await, self.sum(HELD[1], &[]).await]
    }

    /// What is left to be done or remembered.
    async fn busy(&self) -> Option<String> {
        for name in BUSY {
            let count = self.sum(name, &[]).await;
            if count > 0 {
                return Some(format!("{name}: {count}"));
            }
        }
        None
    }

    /// Waits until the operator shows so many Runs that are active and that have succeeded, and no others. Pauses double
    /// in an outage, and are jittered up to twice their length. Returns the seconds that it took.
    async fn shows(&self, wanted: [u64; 2], outage: u64) -> u64 {
        let began = Instant::now();
        let runs = u32::try_from(wanted[0] + wanted[1]).unwrap();
        let patience = EACH * runs + 2 * Duration::from_secs(outage);
        eventually_after(patience, "the operator shows the Runs", async || {
            let runs = async |labels: &[(&str, &str)]| self.sum("run_operator_runs", labels).await;
            let active = runs(&[("phase", "Active")]).await;
            let succeeded = runs(&[("phase", "Succeeded")]).await;
            let all = runs(&[]).await;
            if [active, succeeded] == wanted && all == active + succeeded {
                Ok(())
            } else {
                Err(format!("{active} and {succeeded} of {all}, not {wanted:?}"))
            }
        })
        .await;
        began.elapsed().as_secs()
    }
}
