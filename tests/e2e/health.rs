//! `/healthz`, `/readyz` and `/metrics` of the operator.

use run_operator::api::Phase;
use run_operator::controller::metrics::catalogue::{GROUPS, Kind};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::support::{Setup, World, eventually, free_port};

/// Proves: P-metrics
#[tokio::test]
async fn every_family_is_there_from_the_start_and_at_zero() {
    let world = World::with(Setup {
        elected: Some(&[]),
        ..Setup::default()
    })
    .await;
    let (status, text) = world.operator().fetch("metrics").await.unwrap();
    assert_eq!(status, 200);
    for metric in GROUPS.iter().flat_map(|group| group.metrics) {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        let head = format!(
            "# HELP {0} {1}.\n# TYPE {0} {kind}\n",
            metric.name, metric.help
        );
        assert!(text.contains(&head), "{head} in {text}");
    }
    // Nothing has happened to a Run yet.
    for metric in GROUPS[0].metrics.iter().chain(GROUPS[2].metrics) {
        // A limit is no count of what has happened.
        let counts = metric.name != "run_operator_stream_limit";
        let of_runs =
            counts && metric.labels.is_empty() || metric.name.starts_with("run_operator_runs");
        let shown = text.lines().filter(|line| line.starts_with(metric.name));
        for line in shown.filter(|_| of_runs) {
            assert!(line.ends_with(" 0"), "{line}");
        }
    }
    for code in ["200", "none"] {
        let series = format!(
            "run_operator_service_requests_total{{operation=\"createRun\",code=\"{code}\"}}"
        );
        assert_eq!(world.operator().metric(&series).await, 0.0, "{series}");
    }
    assert!(
        !text.contains(&world.namespace),
        "a namespace is a label in {text}"
    );
}

/// Proves: P-metrics
#[tokio::test]
async fn runs_are_counted_by_phase_and_streams_while_they_are_open() {
    let world = World::new().await;
    world.create_run("good", json!({})).await;
    world.simulate("bad", json!({"outcome": "failed"})).await;
    world.create_run("held", json!({"suspend": true})).await;
    world.create_run("cancelled", json!({"cancel": true})).await;
    world
        .simulate("active-1", json!({"outcome": "never"}))
        .await;
    world
        .simulate("active-2", json!({"outcome": "never"}))
        .await;
    world
        .simulate("stuck", json!({"outcome": "never", "cancel": "stuck"}))
        .await;
    world.state("stuck", "running").await;
    world
        .patch_run("stuck", json!({"spec": {"cancel": true}}))
        .await;
    world.phase("stuck", Phase::Cancelling).await;
    world.phase("good", Phase::Succeeded).await;
    world.phase("bad", Phase::Failed).await;
    world.phase("cancelled", Phase::Cancelled).await;
    let wanted = [
        ("run_operator_runs{phase=\"Pending\"}", 1.0),
        ("run_operator_runs{phase=\"Active\"}", 2.0),
        ("run_operator_runs{phase=\"Cancelling\"}", 1.0),
        ("run_operator_runs{phase=\"Succeeded\"}", 1.0),
        ("run_operator_runs{phase=\"Failed\"}", 1.0),
        ("run_operator_runs{phase=\"Cancelled\"}", 1.0),
        ("run_operator_open_streams", 3.0),
        (
            "run_operator_service_requests_total{operation=\"createRun\",code=\"201\"}",
            5.0,
        ),
    ];
    eventually("the metrics agree", async || {
        for (series, value) in wanted {
            let shown = world.operator().metric(series).await;
            if shown != value {
                return Err(format!("{series} {shown}, not {value}"));
            }
        }
        Ok(())
    })
    .await;
    let panics = "controller_runtime_reconcile_panics_total{controller=\"run\"}";
    assert_eq!(world.operator().metric(panics).await, 0.0);
}

/// The connections that are sent `/metrics` at the same time.
const PLACES: usize = 8;

/// How the answer to a scrape begins that has a place.
const SERVED: &[u8; 12] = b"HTTP/1.1 200";

/// So many scrapers that read nothing of their answer, and so keep their places.
async fn silent_scrapers(world: &World, count: usize) -> Vec<TcpStream> {
    let mut silent = Vec::new();
    for _ in 0..count {
        silent.push(world.operator().ask_and_read_nothing("metrics").await);
    }
    silent
}

/// Proves: P-scrape
#[tokio::test]
async fn eight_scrapes_are_served_at_a_time_and_no_ninth() {
    let world = World::new().await;
    // The scrapers of one look leave before the next look.
    let beside = async |silent| {
        let _silent = silent_scrapers(&world, silent).await;
        let answer = world.operator().get("metrics").await.unwrap();
        let retry_after = answer.headers().get("retry-after").cloned();
        let retry_after = retry_after.map(|value| value.to_str().unwrap().to_owned());
        (answer.status().as_u16(), retry_after)
    };
    for (silent, expected) in [
        (PLACES - 1, (200, None)),
        (PLACES, (503, Some("1".to_owned()))),
    ] {
        eventually("the places are taken as expected", async || {
            let answered = beside(silent).await;
            if answered == expected {
                Ok(())
            } else {
                Err(format!("{answered:?} beside {silent}, not {expected:?}"))
            }
        })
        .await;
    }
}

/// As many silent scrapers as there are places, each of which has one.
async fn all_places_taken(world: &World) -> Vec<TcpStream> {
    eventually("all places are taken", async || {
        let silent = silent_scrapers(world, PLACES).await;
        for scraper in &silent {
            let mut head = [0; SERVED.len()];
            let peeked = scraper.peek(&mut head).await;
            peeked.map_err(|error| error.to_string())?;
            // Those of an earlier look may still have had its place.
            if head != *SERVED {
                return Err("one has no place".to_owned());
            }
        }
        Ok(silent)
    })
    .await
}

/// When these probes are answered, the scrape before them waits, or was refused: they take longer than a timer's tick, and
/// far less than the second of its wait. On a busy machine that may be untrue once.
/// Proves: P-scrape
#[tokio::test]
async fn a_scrape_waits_for_a_place() {
    const LOOKS: usize = 10;
    const PROBES: usize = 10;
    let world = World::new().await;
    let mut served = 0;
    for _ in 0..LOOKS {
        let mut silent = all_places_taken(&world).await;
        let mut waits = world.operator().ask_and_read_nothing("metrics").await;
        for _ in 0..PROBES {
            world.operator().fetch("healthz").await.unwrap();
        }
        drop(silent.pop());
        let mut head = [0; SERVED.len()];
        waits.read_exact(&mut head).await.unwrap();
        served += usize::from(head == *SERVED);
    }
    assert!(served > LOOKS / 2, "{served} of {LOOKS} were served");
}

/// Requests to these listeners take no time of the threads on which the controller works.
/// Proves: P-scrape
#[tokio::test]
async fn each_listener_has_a_thread_of_its_own() {
    let listen: &'static str = format!("127.0.0.1:{}", free_port()).leak();
    let world = World::with(Setup {
        operator: vec!["--metrics-listen", listen],
        ..Setup::default()
    })
    .await;
    let threads = world.operator().threads();
    for name in ["health", "metrics"] {
        let named = threads.iter().filter(|thread| *thread == name).count();
        assert_eq!(named, 1, "{name} in {threads:?}");
    }
}

/// More of them than there are places for scrapes; a probe needs none.
/// Proves: P-scrape
#[tokio::test]
async fn a_scraper_that_reads_nothing_delays_no_probe() {
    const SCRAPERS: usize = 50;
    let world = World::new().await;
    let mut silent = Vec::new();
    for _ in 0..SCRAPERS {
        silent.push(world.operator().ask_and_read_nothing("metrics").await);
        silent.push(world.operator().ask_and_read_nothing("metrics").await);
        let healthz = world.operator().fetch("healthz").await.unwrap();
        assert_eq!(healthz, (200, "ok\n".to_owned()));
    }
    assert_eq!(world.operator().fetch("readyz").await.unwrap().0, 200);
    // Each of them loses its place in time.
    eventually("it is scraped again", async || {
        match world.operator().fetch("metrics").await {
            Ok((200, _)) => Ok(()),
            other => Err(format!("{:?}", other.map(|(status, _)| status))),
        }
    })
    .await;
}

/// Proves: P-health
#[tokio::test]
async fn it_is_ready_though_the_service_is_down() {
    let mut world = World::new().await;
    world.service.kill();
    world.kill_operator();
    // Waits for /readyz.
    world.start_operator().await;
    let healthz = world.operator().fetch("healthz").await.unwrap();
    assert_eq!(healthz, (200, "ok\n".to_owned()));
    world.create_run("train", json!({})).await;
    world
        .workspace_ready("default", "False", "ServiceUnavailable")
        .await;
    let run = world
        .condition(
            "train",
            run_operator::api::ConditionType::Ready,
            "False",
            "WorkspaceNotReady",
        )
        .await;
    assert!(!crate::support::held(&run));
    assert_eq!(world.operator().fetch("readyz").await.unwrap().0, 200);
}
