//! The limit: what the control plane bears when nothing is done but the writes themselves.

use std::time::{Duration, Instant};

use super::error::BenchError;
use super::lifecycle::Lifecycle;
use super::load::{self, Pace};
use super::observer::Observer;
use super::stage::{Measured, Stage};

/// What a loader reached.
pub(super) struct Limit {
    pub(super) lifecycles_a_second: f64,
    pub(super) used: Measured,
}

/// Makes the writes of `count` lives, with as many watches of the Runs open as an operator and an observer have.
pub(super) async fn measure(
    life: &Lifecycle,
    namespace: &str,
    count: usize,
    events: bool,
) -> Result<Limit, BenchError> {
    let stage = Stage::set().await?;
    stage.namespace(namespace).await?;
    let _watches = [
        Observer::start(stage.client.clone(), namespace),
        Observer::start(stage.client.clone(), namespace),
    ];
    let clients = stage.clients().await?;
    let pace = Pace {
        queued: Duration::ZERO,
        running: Duration::ZERO,
    };
    let lives = async |prefix, count| {
        load::each(&clients, prefix, count, async |client, name| {
            life.repeat(&client, namespace, &name, pace, events).await
        })
        .await
    };
    stage.at_rest().await?;
    lives("warm-up", load::WARM_UP).await?;
    let before = stage.measured()?;
    let began = Instant::now();
    lives("run", count).await?;
    let took = began.elapsed();
    Ok(Limit {
        lifecycles_a_second: load::a_second(count, took),
        used: stage.measured()? - before,
    })
}
