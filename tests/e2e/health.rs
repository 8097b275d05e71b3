//! `/healthz`, `/readyz` and `/metrics` of the operator.

use std::path::PathBuf;

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::support::{World, eventually, held};
use test_cluster::free_port;

/// The connections that are sent `/metrics` at the same time.
const PLACES: usize = 8;

/// How the answer to a scrape begins that has a place.
const SERVED: &[u8; 12] = b"HTTP/1.1 200";

/// As many scrapers as there are places, each of which has one and keeps it, since it reads nothing of its answer.
async fn all_places_taken(world: &World) -> Vec<TcpStream> {
    eventually("all places are taken", async || {
        let mut silent = Vec::new();
        for _ in 0..PLACES {
            silent.push(world.operator().ask_and_read_nothing("metrics").await);
        }
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

/// Proves: P-metrics
#[tokio::test]
async fn eight_scrapes_are_served_at_a_time_and_no_ninth() {
    let world = World::new().await;
    let _silent = all_places_taken(&world).await;
    let answer = world.operator().get("metrics").await.unwrap();
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.headers()["retry-after"], "1");
}

/// When these probes are answered, the scrape before them waits, or was refused: they take longer than a timer's tick, and
/// far less than the second of its wait. On a busy machine that may be untrue once.
/// Proves: P-metrics
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
/// Proves: P-metrics
#[tokio::test]
async fn each_listener_has_a_thread_of_its_own() {
    let listen: &'static str = format!("127.0.0.1:{}", free_port().unwrap()).leak();
    let world = World::with_flags(&["--metrics-listen", listen]).await;
    let threads = format!("/proc/{}/task", world.operator().pid());
    let threads = std::fs::read_dir(threads).unwrap();
    // One that ends meanwhile has no name any more.
    let name = |thread: PathBuf| std::fs::read_to_string(thread.join("comm")).ok();
    let threads: Vec<String> = threads
        .filter_map(|thread| name(thread.ok()?.path()))
        .collect();
    for name in ["health\n", "metrics\n"] {
        let named = threads.iter().filter(|thread| *thread == name).count();
        assert_eq!(named, 1, "{name} in {threads:?}");
    }
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
    let run = world.not_ready("train", "WorkspaceNotReady").await;
    assert!(!held(&run));
    assert_eq!(world.operator().fetch("readyz").await.unwrap().0, 200);
}
