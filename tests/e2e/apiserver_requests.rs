//! What the operator asks of the API server: few requests, over two connections.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use procfs::net::TcpState;
use procfs::process::{FDTarget, Process};
use serde_json::{Value, json};

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

/// The number of the operator's connections to the API server.
fn connections(world: &World) -> usize {
    let pid = i32::try_from(world.operator().pid()).unwrap();
    let process = Process::new(pid).unwrap();
    let files = process.fd().unwrap().filter_map(Result::ok);
    let own: Vec<FDTarget> = files.map(|file| file.target).collect();
    let port = world.control_plane.api_port().unwrap();
    let api_server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut connections = process.tcp().unwrap();
    connections.retain(|connection| {
        connection.remote_address == api_server
            && connection.state == TcpState::Established
            && own.contains(&FDTarget::Socket(connection.inode))
    });
    connections.len()
}

async fn until_connections(world: &World, count: usize) {
    let what = format!("{count} connections");
    eventually(&what, async || match connections(world) {
        now if now == count => Ok(()),
        other => Err(other),
    })
    .await;
}

/// Proves: F-outage
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
    let mut reads = Audit::of(&world).all_requests().split_off(before);
    reads.retain(|request| match request["verb"].as_str().unwrap() {
        // Its end is logged too.
        "watch" => request["stage"] == "ResponseStarted",
        // A check reads its Secret by name.
        verb => verb == "list" || request["objectRef"]["name"] == Value::Null && verb == "get",
    });
    let mut read = Vec::new();
    for request in &reads {
        let uri = request["requestURI"].as_str().unwrap();
        let resource = request["objectRef"]["resource"].as_str().unwrap_or(uri);
        // A watch of a single name begins with a list of one.
        let small = ["/version", "secrets"].contains(&resource);
        assert!(small || streams_a_list(uri), "{uri}");
        read.push(resource);
    }
    read.sort_unstable();
    let once = [
        "/version",
        "clusterworkspaces",
        "namespaces",
        "runs",
        "secrets",
        "secrets",
        "workspaces",
    ];
    assert_eq!(read, once);
}

/// Proves: F-outage
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
/// Proves: F-outage
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
/// Proves: F-outage
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
