//! `/metrics` of a live operator: complete, bounded, and the same as what both servers have counted.

use std::collections::{BTreeMap, BTreeSet};

use run_operator::api::Phase;
use run_operator::controller::metrics::Metrics;
use serde_json::json;

use crate::support::{DEPLOYED, ELECTED, Rights, Series, Setup, World, eventually, series};

mod request_counts;

async fn scrape(world: &World) -> Vec<Series> {
    let (status, text) = world.operator().fetch("metrics").await.unwrap();
    assert_eq!(status, 200, "{text}");
    series(&text)
}

/// The values of each label of each series that exist from an operator's start.
type Known = BTreeMap<(String, String), BTreeSet<String>>;

fn known() -> Known {
    let metrics = Metrics::new();
    metrics.set_leader(DEPLOYED, false);
    let mut known = Known::new();
    for one in series(&metrics.encode().unwrap()) {
        // A series without labels is known by an empty one.
        known.insert((one.name.clone(), String::new()), [String::new()].into());
        for (label, value) in one.labels {
            let values = known.entry((one.name.clone(), label)).or_default();
            values.insert(value);
        }
    }
    known
}

/// True if a label may have this value, whatever objects there are.
fn foreseen(known: &Known, series: &str, label: &str, value: &str) -> bool {
    let values = known.get(&(series.to_owned(), label.to_owned()));
    let status = |value: &str| value.parse::<u16>().is_ok_and(|s| (100..600).contains(&s));
    values.is_some_and(|values| values.contains(value) || label == "code" && status(value))
}

/// Runs that end, are refused, cancelled and deleted, and a token that changes.
async fn a_whole_life(world: &World) {
    world.workspace_ready("default", "True", "Verified").await;
    world.simulate("train", json!({"runTimeMs": 1})).await;
    world.phase("train", Phase::Succeeded).await;
    world.simulate("bad", json!({"outcome": "failed"})).await;
    world.phase("bad", Phase::Failed).await;
    world.running("sweep").await;
    world.rotate("canary-of-the-second-month", 1).await;
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
    a_whole_life(&world).await;
    request_counts::match_those_of_both_servers(&world).await;
    every_label_is_foreseen(&world).await;
    each_life_is_counted_once(&world).await;
    gauges_and_counts_agree(&world).await;
}

async fn each_life_is_counted_once(world: &World) {
    const LIVES: [(&str, f64); 7] = [
        (
            r#"run_operator_runs_finished_total{outcome="Succeeded",reason="Succeeded"}"#,
            1.0,
        ),
        (
            r#"run_operator_runs_finished_total{outcome="Failed",reason="Failed"}"#,
            1.0,
        ),
        (
            r#"run_operator_runs_finished_total{outcome="Cancelled",reason="Cancelled"}"#,
            1.0,
        ),
        (
            r#"run_operator_run_duration_seconds_count{outcome="Succeeded"}"#,
            1.0,
        ),
        (
            r#"run_operator_run_duration_seconds_bucket{le="3600.0",outcome="Succeeded"}"#,
            1.0,
        ),
        ("run_operator_submission_wait_seconds_count{}", 3.0),
        ("run_operator_end_lag_seconds_count{}", 3.0),
    ];
    for (series, count) in LIVES {
        world.metric_is(series, count).await;
    }
}

async fn every_label_is_foreseen(world: &World) {
    let known = known();
    for one in scrape(world).await {
        assert!(
            foreseen(&known, &one.name, "", ""),
            "{} is not declared",
            one.name
        );
        for (label, value) in &one.labels {
            let foreseen = foreseen(&known, &one.name, label, value);
            assert!(foreseen, "{}: {label}={value:?}", one.name);
        }
    }
}

async fn gauges_and_counts_agree(world: &World) {
    let nowhere = json!({"workspaceRef": {"name": "none"}});
    world.create_run("waits", nowhere).await;
    let exact: [(&str, f64); 7] = [
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
    eventually("reconciles and their times agree", async || {
        let all = scrape(world).await;
        let of = |name: &str| {
            let all = all.iter().filter(|one| one.name == name);
            let of_runs = all.filter(|one| one.labels["controller"] == "run");
            of_runs.map(|one| one.value).sum::<f64>()
        };
        let counts = [
            of("controller_runtime_reconcile_total"),
            of("controller_runtime_reconcile_time_seconds_count"),
        ];
        let settled = of("controller_runtime_active_workers") == 0.0;
        if settled && counts[0] > 10.0 && counts == [counts[0]; 2] {
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
