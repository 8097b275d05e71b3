//! `/metrics` of a live operator: complete, bounded, and the same as what both servers have counted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use run_operator::api::Phase;
use run_operator::controller::metrics::catalogue::{GROUPS, Kind, Metric};
use serde_json::{Value, json};

use crate::support::{Audit, Rights, Setup, World, eventually, own_control_plane};
use crate::tools;

const SECOND: &str = "canary-of-the-second-month-77c1";

/// One series: its name, its labels, its value.
struct Series {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

fn series(text: &str) -> Vec<Series> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let read = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.strip_suffix('}').unwrap();
        let pairs = labels.split("\",").filter(|label| !label.is_empty());
        let pairs = pairs.map(|label| label.split_once("=\"").unwrap());
        Series {
            name: name.to_owned(),
            labels: pairs
                .map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned()))
                .collect(),
            value: value.parse().unwrap(),
        }
    };
    samples.map(read).collect()
}

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

/// Whether a label may have this value, whatever objects there are.
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
}

/// Runs that end, are refused, cancelled and deleted, and a token that changes.
async fn a_whole_life(world: &World) {
    world.workspace_ready("default", "True", "Verified").await;
    world.simulate("train", json!({"runTimeMs": 1})).await;
    world.phase("train", Phase::Succeeded).await;
    world.simulate("bad", json!({"outcome": "failed"})).await;
    world.phase("bad", Phase::Failed).await;
    world.simulate("sweep", json!({"outcome": "never"})).await;
    world.state("sweep", "running").await;
    let checks = world.service.requests("getWorkspace").await.len();
    world.service.post("tokens", json!({"token": SECOND})).await;
    world.token(SECOND).await;
    world.asked("getWorkspace", checks + 1).await;
    world.delete_run("sweep").await;
    world.gone("sweep").await;
}

async fn world_of_its_own() -> World {
    World::with(Setup {
        control_plane: Some(own_control_plane().await),
        everywhere: true,
        rights: Rights::Deployed,
        ..Setup::default()
    })
    .await
}

/// The counts of one family by two of its labels, those at zero left out.
fn counts(text: &str, name: &str, by: [&str; 2]) -> BTreeMap<(String, String), u64> {
    let mut counts = BTreeMap::new();
    for one in series(text)
        .iter()
        .filter(|one| one.name == name && one.value > 0.0)
    {
        let key = (one.labels[by[0]].clone(), one.labels[by[1]].clone());
        *counts.entry(key).or_default() += whole(one.value);
    }
    counts
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

/// What the API server has written down, by method and status; each request once.
fn audited(log: &Path) -> BTreeMap<(String, String), u64> {
    let (mut seen, mut counts) = (BTreeSet::new(), BTreeMap::new());
    for request in Audit::of_deployed(log).all_requests() {
        if !seen.insert(request["auditID"].as_str().unwrap().to_owned()) {
            continue;
        }
        let method = match request["verb"].as_str().unwrap() {
            "get" | "list" | "watch" => "GET",
            "create" => "POST",
            "patch" => "PATCH",
            "delete" => "DELETE",
            other => panic!("{other}"),
        };
        let code = request["responseStatus"]["code"].to_string();
        *counts.entry((method.to_owned(), code)).or_default() += 1;
    }
    counts
}

/// What the service has counted, by our name of the operation and status.
async fn served(world: &World) -> BTreeMap<(String, String), u64> {
    let stats = world.service.get("stats").await;
    let mut counts = BTreeMap::new();
    for (operation, by_status) in stats["requests"].as_object().unwrap() {
        let operation = match operation.as_str() {
            "getWorkspace" => "getCurrentWorkspace",
            "streamEvents" => "streamRunEvents",
            other => other,
        };
        for (status, count) in by_status.as_object().unwrap() {
            let count = count.as_u64().unwrap();
            if count > 0 {
                counts.insert((operation.to_owned(), status.clone()), count);
            }
        }
    }
    counts
}

#[tokio::test]
async fn the_requests_of_a_whole_life_are_those_that_both_servers_have_counted() {
    let world = world_of_its_own().await;
    let log = world.control_plane.audit_log().expect("a log of its own");
    a_whole_life(&world).await;
    eventually(
        "the API server and the operator count the same",
        async || {
            let audited = audited(&log);
            let counted = counts(
                &scrape(&world).await,
                "rest_client_requests_total",
                ["method", "code"],
            );
            if counted == audited {
                println!("requests to the API server: {counted:?}");
                return Ok(());
            }
            Err(format!("{counted:?}, and in the log {audited:?}"))
        },
    )
    .await;
    let name = "run_operator_service_requests_total";
    eventually("the service and the operator count the same", async || {
        let served = served(&world).await;
        let counted = counts(&scrape(&world).await, name, ["operation", "code"]);
        if counted == served {
            println!("requests to the service: {counted:?}");
            return Ok(());
        }
        Err(format!("{counted:?}, and at the service {served:?}"))
    })
    .await;
}

#[tokio::test]
async fn every_metric_is_there_and_no_label_is_made_of_an_object_or_an_answer() {
    let world = world_of_its_own().await;
    let fresh = scrape(&world).await;
    for metric in all() {
        assert!(
            fresh.contains(&format!("# TYPE {} ", metric.name)),
            "{}",
            metric.name
        );
    }
    a_whole_life(&world).await;
    let text = scrape(&world).await;
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
            assert!(
                foreseen(metric, name, value, &host),
                "{}: {name}={value:?}",
                one.name
            );
        }
    }
    // A scrape by a client that asks for nothing is in the format that promtool reads.
    let said = tools::run("promtool", &["check", "metrics"], &text);
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && errors.is_empty(), "{errors}");
    println!(
        "{} series of {} metrics",
        series(&text).len(),
        all().count()
    );
}

#[tokio::test]
async fn what_has_happened_is_what_is_counted() {
    let world = world_of_its_own().await;
    a_whole_life(&world).await;
    let spec =
        json!({"workspaceRef": {"kind": "Workspace", "name": "none"}, "workload": {"image": "a"}});
    world.create_run("waits", spec).await;
    world.simulate("refused", json!({})).await;
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
        let text = scrape(&world).await;
        let of = |name: &str| {
            let all = series(&text).into_iter().filter(|one| {
                one.name == name && one.labels.get("controller").is_some_and(|c| c == "run")
            });
            whole(all.map(|one| one.value).sum())
        };
        let counts = [
            of("controller_runtime_reconcile_total"),
            of("controller_runtime_reconcile_time_seconds_count"),
            of("workqueue_queue_duration_seconds_count"),
            of("workqueue_work_duration_seconds_count"),
        ];
        let settled = of("controller_runtime_active_workers") == 0;
        if settled && counts[0] > 10 && counts.iter().all(|count| *count == counts[0]) {
            println!("{counts:?} reconciles, {} adds", of("workqueue_adds_total"));
            return Ok(());
        }
        Err(format!("{counts:?}"))
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

#[tokio::test]
async fn a_token_that_is_refused_shows_as_a_workspace_that_is_not_ready() {
    let world = World::new().await;
    world.workspace_ready("default", "True", "Verified").await;
    world.token("nobody-knows-this-one").await;
    world
        .workspace_ready("default", "False", "Unauthorized")
        .await;
    let rejected = r#"run_operator_workspaces_not_ready{reason="Unauthorized"}"#;
    let other: Value = json!({"workspaceRef": {"name": "default"}, "workload": {"image": "a"}});
    world.create_run("waits", other).await;
    eventually("it is counted", async || {
        let shown = world.operator().metric(rejected).await;
        if shown == 1.0 { Ok(()) } else { Err(shown) }
    })
    .await;
}
