//! What the operator asks of the API server: few requests, over two connections.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::time::Duration;

use serde_json::json;

use crate::leader::until_it_leads;
use crate::support::{
    Audit, Rights, Setup, Wire, World, eventually, eventually_after, holds_for_a_while, phase_of,
};
use run_operator::api::Phase;
use test_cluster::{ControlPlane, Scratch};
use test_support::streams_a_list;

/// A start opens several watches together: on a slow machine one of them may get a connection of its own, which it keeps
/// to its end.
const SHORT_WATCHES: [&str; 2] = ["--watch-timeout", "5s"];
/// Runs that are created together.
const RUNS: usize = 40;

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

async fn until_connections(world: &World, count: usize) {
    let what = format!("{count} connections");
    eventually(&what, async || match connections(world) {
        now if now == count => Ok(()),
        other => Err(other),
    })
    .await;
}

/// Proves: P-list-streamed
#[tokio::test]
async fn a_start_reads_each_kind_by_one_request() {
    let mut world = World::with(Setup {
        everywhere: true,
        rights: Rights::Deployed,
        ..Setup::default()
    })
    .await;
    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    world.released("train").await;
    world.kill_operator();
    let before = Audit::of(&world).all_requests().len();
    world.start_operator().await;
    world.create_run("next", json!({})).await;
    world.phase("next", Phase::Succeeded).await;
    let (mut watches, mut versions) = (BTreeMap::new(), 0);
    for request in &Audit::of(&world).all_requests()[before..] {
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

/// Proves: P-one-connection
#[tokio::test]
async fn requests_in_flight_share_one_connection_watches_another() {
    let world = World::with_flags(&SHORT_WATCHES).await;
    until_connections(&world, 2).await;
    let names: Vec<_> = (0..RUNS).map(|number| format!("train-{number}")).collect();
    let created = names.iter().map(|name| world.create_run(name, json!({})));
    futures::future::join_all(created).await;
    assert_eq!(connections(&world), 2, "amid the writes");
    for name in &names {
        world.phase(name, Phase::Succeeded).await;
    }
    until_connections(&world, 2).await;
}

/// No other request delays those of the Lease.
/// Proves: P-one-connection
#[tokio::test]
async fn the_requests_of_the_lease_have_their_own_connection() {
    let world = World::with(Setup {
        elected: Some(&[]),
        operator: SHORT_WATCHES.to_vec(),
        ..Setup::default()
    })
    .await;
    until_it_leads(world.operator()).await;
    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    until_connections(&world, 3).await;
    holds_for_a_while(100, async || assert_eq!(connections(&world), 3)).await;
}

/// Without a ping, a connection on which nothing comes back would be used for ever.
/// Proves: P-one-connection
#[tokio::test]
async fn connections_that_answer_no_ping_are_replaced() {
    /// The silence before a ping, and the time for its answer.
    const NOTICED: Duration = Duration::from_secs(30 + 15);
    let scratch = Scratch::new("way").unwrap();
    let (wire, kubeconfig) = Wire::to_api_server(ControlPlane::shared().await, scratch.path());
    let world = World::with(Setup {
        through: Some(kubeconfig),
        ..Setup::default()
    })
    .await;
    world.create_run("before", json!({})).await;
    world.phase("before", Phase::Succeeded).await;
    wire.forget();
    world.create_run("after", json!({})).await;
    eventually_after(
        NOTICED,
        "the next Run has succeeded",
        async || match phase_of(&world.run("after").await) {
            Some(Phase::Succeeded) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
}
