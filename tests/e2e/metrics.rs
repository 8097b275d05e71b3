//! `/metrics` of a live operator: complete, bounded, and the same as what both servers have counted.

use std::collections::BTreeSet;

use run_operator::api::Phase;
use run_operator::controller::metrics::catalogue::{GROUPS, Kind, Metric};
use serde_json::json;

use crate::least_privilege::rotates;
use crate::support::{DEPLOYED, ELECTED, Rights, Series, Setup, World, eventually, series};

mod request_counts;

async fn scrape(world: &World) -> String {
    let (status, text) = world.operator().fetch("metrics").await.unwrap();
    assert_eq!(status, 200, "{text}");
    text
}

fn all() -> impl Iterator<Item = &'static Metric> {
    GROUPS
        .iter()
        .flat_map(|group| group.metrics.iter().copied())
}

/// The declared metric of a series.
fn metric_of(series: &Series) -> Option<&'static Metric> {
    let plain = ["_bucket", "_sum", "_count"];
    let plain = plain
        .iter()
        .find_map(|suffix| series.name.strip_suffix(suffix));
    all().find(|metric| match metric.kind {
        Kind::Histogram(_) => Some(metric.name) == plain,
        Kind::Counter | Kind::Gauge => metric.name == series.name,
    })
}

/// True if a label may have this value, whatever objects there are.
fn foreseen(metric: &Metric, name: &str, value: &str, api_server: &str) -> bool {
    if name == "le" {
        return value == "+Inf" || value.parse::<f64>().is_ok();
    }
    let label = metric
        .labels
        .iter()
        .find(|label| label.name == name)
        .unwrap();
    let status = |value: &str| value.parse::<u16>().is_ok_and(|s| (100..600).contains(&s));
    label.known.contains(&value)
        || label.name == "code" && status(value)
        || label.name == "host" && value == api_server
        || metric.name == "leader_election_master_status" && value == DEPLOYED
}

/// Runs that end, are refused, cancelled and deleted, and a token that changes.
async fn a_whole_life(world: &World) {
    world.workspace_ready("default", "True", "Verified").await;
    world.simulate("train", json!({"runTimeMs": 1})).await;
    world.phase("train", Phase::Succeeded).await;
    world.simulate("bad", json!({"outcome": "failed"})).await;
    world.phase("bad", Phase::Failed).await;
    world.running("sweep").await;
    rotates(world, 1).await;
    world.delete_run("sweep").await;
    world.gone("sweep").await;
}

/// Proves: P-metrics
#[tokio::test]
async fn every_metric_counts_what_has_happened_and_names_no_object() {
    let world = World::with(Setup {
        everywhere: true,
        operator: ELECTED.to_vec(),
        rights: Rights::Deployed,
        ..Setup::default()
    })
    .await;
    let fresh = scrape(&world).await;
    for metric in all() {
        let name = metric.name;
        assert!(fresh.contains(&format!("# TYPE {name} ")), "{name}");
    }
    a_whole_life(&world).await;
    request_counts::match_those_of_both_servers(&world).await;
    every_label_is_foreseen(&world).await;
    gauges_and_counts_agree(&world).await;
}

async fn every_label_is_foreseen(world: &World) {
    let text = scrape(world).await;
    let hosts: BTreeSet<String> = series(&text)
        .iter()
        .filter_map(|one| one.labels.get("host").cloned())
        .collect();
    let kubeconfig = std::fs::read_to_string(world.control_plane.kubeconfig()).unwrap();
    let [host] = Vec::from_iter(hosts).try_into().unwrap();
    assert!(kubeconfig.contains(&format!("https://{host}")), "{host}");
    for one in series(&text) {
        let metric = metric_of(&one).unwrap_or_else(|| panic!("{} is not declared", one.name));
        for (name, value) in &one.labels {
            let known = foreseen(metric, name, value, &host);
            assert!(known, "{}: {name}={value:?}", one.name);
        }
    }
}

async fn gauges_and_counts_agree(world: &World) {
    let nowhere = json!({"workspaceRef": {"name": "none"}});
    world.create_run("waits", nowhere).await;
    let exact: [(&str, f64); 8] = [
        (
            r#"run_operator_workspaces{kind="Workspace",ready="True"}"#,
            1.0,
        ),
        (
            r#"run_operator_workspaces{kind="Workspace",ready="False"}"#,
            0.0,
        ),
        ("run_operator_token_changes_total", 1.0),
        ("run_operator_runs_in_doubt", 0.0),
        (r#"run_operator_runs{phase="Pending"}"#, 1.0),
        (r#"run_operator_runs{phase="Failed"}"#, 1.0),
        (
            r#"controller_runtime_reconcile_panics_total{controller="run"}"#,
            0.0,
        ),
        (r#"workqueue_depth{name="run",controller="run"}"#, 0.0),
    ];
    eventually("the gauges agree", async || {
        for (series, value) in exact {
            let shown = world.operator().metric(series).await;
            if shown != value {
                return Err(format!("{series} {shown}, not {value}"));
            }
        }
        Ok(())
    })
    .await;
    eventually("reconciles, their times and the queue agree", async || {
        let text = scrape(world).await;
        let of = |name: &str| {
            let all = series(&text).into_iter().filter(|one| {
                one.name == name && one.labels.get("controller").is_some_and(|c| c == "run")
            });
            all.map(|one| one.value).sum::<f64>()
        };
        let counts = [
            of("controller_runtime_reconcile_total"),
            of("controller_runtime_reconcile_time_seconds_count"),
            of("workqueue_queue_duration_seconds_count"),
            of("workqueue_work_duration_seconds_count"),
        ];
        let settled = of("controller_runtime_active_workers") == 0.0;
        if settled && counts[0] > 10.0 && counts == [counts[0]; 4] {
            Ok(())
        } else {
            Err(format!("{counts:?}"))
        }
    })
    .await;
    for positive in [
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_start_time_seconds",
    ] {
        let shown = world.operator().metric(positive).await;
        assert!(shown > 0.0 || cfg!(not(target_os = "linux")), "{positive}");
    }
}
