//! What the operator asks of the API server: few requests, over two connections.

use std::collections::{BTreeMap, HashSet};
use std::fs;

use serde_json::json;

use crate::support::{Audit, Rights, Setup, World, eventually, own_control_plane};
use run_operator::api::Phase;
use test_support::streams_a_list;

/// Runs that are created together.
const RUNS: usize = 40;

async fn audited_world() -> World {
    World::with(Setup {
        control_plane: Some(own_control_plane().await),
        everywhere: true,
        rights: Rights::Deployed,
        ..Setup::default()
    })
    .await
}

/// The number of the operator's connections to the API server, from `/proc`.
fn connections(world: &World) -> usize {
    let process = format!("/proc/{}", world.operator().pid());
    let files = fs::read_dir(format!("{process}/fd")).unwrap();
    let own: HashSet<String> = files
        .filter_map(|file| fs::read_link(file.unwrap().path()).ok())
        .filter_map(|link| {
            let inode = link.to_str()?.strip_prefix("socket:[")?;
            Some(inode.trim_end_matches(']').to_owned())
        })
        .collect();
    let remote = format!("0100007F:{:04X}", world.control_plane.api_port().unwrap());
    let established = |line: &&str| {
        let columns: Vec<_> = line.split_whitespace().collect();
        columns[2] == remote && columns[3] == "01" && own.contains(columns[9])
    };
    let all = fs::read_to_string(format!("{process}/net/tcp")).unwrap();
    all.lines().skip(1).filter(established).count()
}

// Proves: P-list-streamed
#[tokio::test]
async fn a_start_reads_each_kind_by_one_request() {
    let mut world = audited_world().await;
    let log = world.control_plane.audit_log().unwrap();
    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    world.released("train").await;
    world.kill_operator();
    let before = Audit::of_deployed(&log).all_requests().len();
    world.start_operator().await;
    world.create_run("next", json!({})).await;
    world.phase("next", Phase::Succeeded).await;
    let (mut watches, mut versions) = (BTreeMap::new(), 0);
    for request in &Audit::of_deployed(&log).all_requests()[before..] {
        let Some(resource) = request["objectRef"]["resource"].as_str() else {
            assert_eq!(request["requestURI"], "/version");
            versions += 1;
            continue;
        };
        assert_ne!(request["verb"], "list", "{request}");
        if request["verb"] == "watch" && request["stage"] == "ResponseStarted" {
            let uri = request["requestURI"].as_str().unwrap();
            assert!(streams_a_list(uri), "{uri}");
            *watches.entry(resource.to_owned()).or_insert(0) += 1;
        }
    }
    assert_eq!(versions, 1);
    let kinds = [
        "clusterworkspaces",
        "namespaces",
        "runs",
        "secrets",
        "workspaces",
    ];
    let expected = kinds.map(|kind| (kind.to_owned(), 1));
    assert_eq!(watches, BTreeMap::from(expected));
}

// Proves: P-one-connection
#[tokio::test]
async fn requests_in_flight_share_one_connection_watches_another() {
    let world = World::new().await;
    let names: Vec<_> = (0..RUNS).map(|number| format!("train-{number}")).collect();
    let created = names.iter().map(|name| world.create_run(name, json!({})));
    futures::future::join_all(created).await;
    assert_eq!(connections(&world), 2, "amid the writes");
    for name in &names {
        world.phase(name, Phase::Succeeded).await;
    }
    eventually("two connections", async || match connections(&world) {
        2 => Ok(()),
        other => Err(other),
    })
    .await;
}
