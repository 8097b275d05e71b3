//! The limit of open files: raised at the start, kept to, and no outage of a service where it is met.

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::json;

use run_operator::api::{ConditionType as Type, Phase};

use crate::support::{Setup, World, condition_of};

/// Sets the soft limit of a process that runs.
fn limit(pid: u32, files: u64) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap());
    let limit = Rlimit {
        current: Some(files),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    prlimit(pid, Resource::Nofile, limit).unwrap();
}

/// Proves: P-files
#[tokio::test]
async fn the_open_file_limit_is_raised_and_bounds_the_streams() {
    let mut world = World::unattended(Setup::default()).await;
    world.recipe.files = Some((64, 120));
    world.start_operator().await;
    let metric = async |name: &str| world.operator().metric(name).await;
    assert_eq!(metric("process_max_fds").await, 120.0);
    assert_eq!(metric("run_operator_stream_limit").await, 24.0);
    let log = world.operator_log();
    assert_eq!(log.matches("leaves fewer event streams").count(), 1);
    world.simulate("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
}

/// Proves: P-files
#[tokio::test]
async fn a_lack_of_files_is_no_outage_of_the_service() {
    let world = World::new().await;
    world.running("first").await;
    // Connections that are kept count as open; nothing can be opened beside them.
    let pid = world.operator().pid();
    limit(pid, 8);
    let names: Vec<String> = (0..6).map(|n| format!("train-{n}")).collect();
    for name in &names {
        world.simulate(name, json!({})).await;
    }
    world.logs("Too many open files").await;
    limit(pid, 4096);
    for name in &names {
        let run = world.phase(name, Phase::Succeeded).await;
        assert_eq!(condition_of(&run, Type::Stalled), None);
    }
    let blocked = "run_operator_out_of_files_total";
    assert!(world.operator().metric(blocked).await >= 1.0);
    // The Workspace was not suspected.
    let log = world.operator_log();
    assert!(!log.contains("a Workspace's check failed"));
    assert_eq!(world.events("default", "NotReady").await.len(), 0);
    world.one_run_each().await;
}
