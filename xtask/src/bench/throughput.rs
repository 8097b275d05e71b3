//! Runs as fast as the API server takes them: the operator beside the limit, which is what the control plane bears when
//! nothing is done but the writes themselves.

use std::time::{Duration, Instant};

use super::lifecycle::Lifecycle;
use super::load::{self, Pace, WARM_UP};
use super::observer::Observer;
use super::stage::{Measured, Requests, Stage};
use super::table::{Column, Figures, mib, millis_each, of_a_core};
use crate::common::Outcome;

const NAMESPACE: &str = "throughput";
/// Time for all Runs to end.
const PATIENCE: Duration = Duration::from_mins(10);
/// Events of a Run: its submission and its end. The Workspace's are few.
const EVENTS: usize = 2;
/// Long enough for every state to be shown: a Run whose states follow sooner than they can be written costs fewer
/// writes.
const PACE: Pace = Pace(2000, 2000);

/// Somebody who took the Runs through their lives.
struct Measures {
    who: &'static str,
    lives_a_second: f64,
    used: Measured,
    /// None of a loader: they are in the recorded life.
    requests: Requests,
}

/// Measures loaders that make the writes alone, and with the Events, and the operator between them: a machine is not
/// equally fast all the time.
pub(super) async fn measure(quick: bool) -> Outcome<Figures> {
    let count = if quick { 200 } else { 1500 };
    let life = Lifecycle::record().await?;
    let all = [
        loader("loader, without Events", &life, count, false).await?,
        loader("loader, with Events", &life, count, true).await?,
        operator(count).await?,
        loader("loader again, with Events", &life, count, true).await?,
        loader("loader again, without Events", &life, count, false).await?,
    ];
    let [before, before_too, operator, after_too, after] = &all;
    let share = |first: &Measures, second: &Measures| {
        let mean = f64::midpoint(first.lives_a_second, second.lives_a_second);
        format!("{:.0} %", 100.0 * operator.lives_a_second / mean)
    };
    let (writes, events) = life.count();
    let [of_operator, apiserver, etcd, _] = operator.used;
    let others = apiserver.cpu + etcd.cpu;
    let without = "The operator's share of the loaders without Events";
    let with = "The operator's share of the loaders with Events";
    let time = "The operator's time as a share of the API server's and etcd's";
    let title = "For each Run; the operator's requests by the API server's audit log and the service's count";
    let columns = all.each_ref().map(|one| one.column(count));
    Ok(Figures::new("throughput")
        .row("Runs", count)
        .row("Writes of a Run in the recorded life", writes)
        .row("Events in the recorded life", events)
        .row(without, share(before, after))
        .row(with, share(before_too, after_too))
        .row(time, of_a_core(of_operator.cpu, others))
        .row(
            "The operator's memory at the end",
            mib(of_operator.resident),
        )
        .columns(title, &columns))
}

impl Measures {
    fn column(&self, count: usize) -> Column {
        let each = |cpu: Duration| millis_each(cpu, count);
        let [operator, apiserver, etcd, service] = self.used;
        Column::new(self.who)
            .cell("Lives a second", format!("{:.1}", self.lives_a_second))
            .cell("Operator's time on a core, in ms", each(operator.cpu))
            .cell("API server's, in ms", each(apiserver.cpu))
            .cell("etcd's, in ms", each(etcd.cpu))
            .cell("The service's, in ms", each(service.cpu))
            .rows(self.requests.for_each(count))
    }
}

/// Makes the writes of so many lives, with as many watches of the Runs open as an operator and an observer have.
async fn loader(
    who: &'static str,
    life: &Lifecycle,
    count: usize,
    events: bool,
) -> Outcome<Measures> {
    let stage = Stage::set(NAMESPACE).await?;
    let _watches = [(); 2].map(|()| Observer::start(stage.client.clone(), NAMESPACE));
    let clients = stage.clients().await?;
    let lives = async |prefix, count| {
        load::each(&clients, prefix, count, async |client, name| {
            life.repeat(&client, NAMESPACE, &name, events).await
        })
        .await
    };
    stage.at_rest().await?;
    lives("warm-up", WARM_UP).await?;
    let before = stage.measured(None)?;
    let began = Instant::now();
    lives("run", count).await?;
    let lives_a_second = load::a_second(count, began.elapsed());
    eprintln!("{who}: {lives_a_second:.1} lives a second");
    Ok(Measures {
        who,
        lives_a_second,
        used: stage.used_since(before, None)?,
        requests: Requests::default(),
    })
}

/// Lets the operator take so many Runs through their lives.
async fn operator(count: usize) -> Outcome<Measures> {
    let stage = Stage::set(NAMESPACE).await?;
    let (operator, _) = stage.operator(&[]).await?;
    stage.workspace_ready(NAMESPACE).await?;
    let observer = Observer::start(stage.client.clone(), NAMESPACE);
    let clients = stage.clients().await?;
    stage.at_rest().await?;
    load::create_all(&clients, NAMESPACE, "warm-up", WARM_UP, PACE).await?;
    observer.released(WARM_UP, PATIENCE).await?;
    stage.events(NAMESPACE, WARM_UP * EVENTS).await?;
    let before = stage.measured(Some(&operator))?;
    let requests = stage.requests().await?;
    let began = Instant::now();
    load::create_all(&clients, NAMESPACE, "run", count, PACE).await?;
    observer.released(WARM_UP + count, PATIENCE).await?;
    // This includes the last Run's own time at the service, so the operator's share is a lower bound.
    let lives_a_second = load::a_second(count, began.elapsed());
    eprintln!("operator: {lives_a_second:.1} lives a second");
    stage.events(NAMESPACE, (WARM_UP + count) * EVENTS).await?;
    Ok(Measures {
        who: "operator",
        lives_a_second,
        used: stage.used_since(before, Some(&operator))?,
        requests: stage.requests().await?.since(&requests),
    })
}
