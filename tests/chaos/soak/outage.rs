//! A long outage while many Runs exist: failing calls are bounded by the backoff, not by the number of Runs,
//! and everything is resumed afterwards.

use std::time::{Duration, Instant};

use super::environment::{Pond, There};
use super::sample::Counted;
use crate::support::eventually;

/// The cost of an outage.
pub(crate) struct Outage {
    pub(crate) what: &'static str,
    pub(crate) seconds: u64,
    pub(crate) runs: u64,
    /// Calls without an answer.
    pub(crate) failed_calls: u64,
    /// The bound of their number.
    pub(crate) at_most: u64,
    /// Time from its end until every Run was in the expected state.
    pub(crate) taken_up: Duration,
}

/// Pauses double, and are jittered up to twice their length: one that began just before the end may take so long.
fn longest_pause(seconds: u64) -> Duration {
    Duration::from_secs(2 * seconds)
}

/// Calls in flight at once (docs/limits.md).
pub(crate) const UNDER_WAY: u64 = 32;
/// Kubernetes Events of a Run that succeeds, and how often each is tried (docs/events.md). They wait for their turn, so
/// that an outage meets those of Runs that were there before it.
const EVENTS: u64 = 2;
const TRIES: u64 = 3;

/// The service refuses connections. As many Runs again are created meanwhile, and all of them are deleted
/// afterwards.
pub(crate) async fn of_the_service(pond: &Pond, seconds: u64, runs: u64) -> Outage {
    let half = runs / 2;
    pond.create("before-the-outage", half).await;
    let there = |runs: u64| There {
        active: runs / 2,
        succeeded: runs - runs / 2,
    };
    pond.shows(there(half), Duration::ZERO).await;
    let failed_calls = async || {
        let counted = Counted::of(&pond.operator).await;
        counted.sum("run_operator_service_requests_total", &[("code", "none")])
    };
    let before = failed_calls().await;
    pond.to_service.refuse();
    pond.create("in-the-outage", runs - half).await;
    pond.world
        .workspace_ready("default", "False", "ServiceUnavailable")
        .await;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let failed_calls = failed_calls().await - before;
    pond.to_service.open();
    let after = There {
        active: half / 2 + (runs - half) / 2,
        succeeded: runs - half / 2 - (runs - half) / 2,
    };
    let back = Instant::now();
    pond.shows(after, longest_pause(seconds)).await;
    let taken_up = back.elapsed();
    pond.delete_all().await;
    // Those in flight, one in half a second until the check has failed, then the check's own; and the time
    // until the check fails is not counted in `seconds`.
    let at_most = UNDER_WAY + 2 * (seconds + 15);
    assert!(
        failed_calls <= at_most,
        "{failed_calls} failed calls, {at_most} are allowed"
    );
    Outage {
        what: "Service",
        seconds,
        runs,
        failed_calls,
        at_most,
        taken_up,
    }
}

/// The API server is down. Runs end meanwhile, and no write succeeds.
pub(crate) async fn of_the_api_server(pond: &Pond, seconds: u64, runs: u64) -> Outage {
    pond.create("before-the-silence", runs).await;
    let active = runs / 2;
    let there = There {
        active,
        succeeded: runs - active,
    };
    pond.shows(there, Duration::ZERO).await;
    // Events apart: nothing else is posted.
    let failed_calls = async || {
        let counted = Counted::of(&pond.operator).await;
        let failed = |labels: &[_]| counted.sum("rest_client_requests_total", labels);
        let events = failed(&[("code", "<error>"), ("method", "POST")]);
        (failed(&[("code", "<error>")]) - events, events)
    };
    let before = failed_calls().await;
    let control_plane = pond.world.control_plane;
    control_plane.stop_apiserver().unwrap();
    // What was active ends now, each with an event that can't be mirrored.
    for run in pond.world.service.runs().await {
        if run["state"] == "running" {
            let path = format!("runs/{}/state", run["runId"].as_str().unwrap());
            let ended = serde_json::json!({"state": "succeeded"});
            pond.world.service.post(&path, ended).await;
        }
    }
    eventually("the operator notices", async || {
        let failed = failed_calls().await.0 - before.0;
        if failed >= active {
            Ok(())
        } else {
            Err(failed)
        }
    })
    .await;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let after = failed_calls().await;
    let (failed_calls, events) = (after.0 - before.0, after.1 - before.1);
    control_plane.start_apiserver().await.unwrap();
    let back = Instant::now();
    let after = There {
        active: 0,
        succeeded: runs,
    };
    pond.shows(after, longest_pause(seconds)).await;
    let taken_up = back.elapsed();
    pond.delete_all().await;
    // A write for each Run, repeated with a pause that doubles; and watches and the Secret.
    let doublings = u64::from((4 * (seconds + 30)).ilog2()) + 2;
    let at_most = (active + 8) * doublings;
    assert!(
        failed_calls <= at_most,
        "{failed_calls} failed requests, {at_most} are allowed"
    );
    assert!(
        events <= runs * EVENTS * TRIES,
        "{events} Events of {runs} Runs were sent without effect"
    );
    Outage {
        what: "API server",
        seconds,
        runs,
        failed_calls,
        at_most,
        taken_up,
    }
}
