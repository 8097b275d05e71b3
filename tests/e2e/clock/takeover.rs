//! Two operators, and wall clocks that are wrong.

use run_operator::api::Phase;
use serde_json::json;

use crate::leader::{record, until_it_leads};
use crate::support::{Operator, Setup, WallClock, World, eventually};

/// The leader's and the other's.
async fn world() -> (World, [WallClock; 2], Operator) {
    let mut world = World::unattended(Setup {
        elected: Some(&[]),
        ..Setup::default()
    })
    .await;
    let clocks = ["one", "two"].map(|name| {
        let folder = world.folder().join(name);
        std::fs::create_dir(&folder).unwrap();
        WallClock::new(&folder)
    });
    let mut recipe = world.recipe();
    recipe.variables = clocks[0].variables();
    let leader = Operator::start(&recipe).await;
    until_it_leads(&leader).await;
    world.operator = Some(leader);
    recipe.variables = clocks[1].variables();
    recipe.log.set_file_name("other.log");
    (world, clocks, Operator::start(&recipe).await)
}

/// Proves: P-clock
#[tokio::test]
async fn a_wrong_wall_clock_takes_no_lease_and_delays_no_takeover() {
    let (mut world, [leaders, others], other) = world().await;
    for (of_the_leader, of_the_other) in [(-3600, 3600), (3600, -3600)] {
        leaders.is_wrong_by(of_the_leader);
        others.is_wrong_by(of_the_other);
        let before = record(&world).await.renew_time;
        eventually("the leader renews its Lease", async || {
            let renewed = record(&world).await.renew_time != before;
            renewed.then_some(()).ok_or("not yet")
        })
        .await;
        let name = format!("under-{}", of_the_leader + 3600);
        world.simulate(&name, json!({"runTimeMs": 100})).await;
        world.phase(&name, Phase::Succeeded).await;
    }
    assert_eq!(record(&world).await.lease_transitions, Some(0));
    world.kill_operator();
    // It took the Lease for an hour younger or older than it is.
    others.is_wrong_by(3600);
    world.simulate("next", json!({"runTimeMs": 100})).await;
    world.phase("next", Phase::Succeeded).await;
    until_it_leads(&other).await;
    assert_eq!(record(&world).await.lease_transitions, Some(1));
    world.one_run_each().await;
}
