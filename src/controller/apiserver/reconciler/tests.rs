#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use futures::FutureExt;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;

const MOMENT: Duration = Duration::from_millis(200);

/// A reconciler of all namespaces, and what it has reconciled.
struct World {
    trigger: Trigger,
    shutdown: CancellationToken,
    begun: Arc<Mutex<Vec<String>>>,
    /// Each reconcile ends with one of its permits.
    ends: Arc<Semaphore>,
    serving: JoinHandle<()>,
}

impl World {
    /// With `most` reconciles at the same time. `action`: what the `n`th reconcile of all, from 1, ends with.
    fn new(most: usize, ends: usize, action: fn(usize) -> Action) -> Self {
        let trigger = Trigger::new("run", &[Scope::All], &Arc::new(Metrics::new()));
        let (begun, ends) = (
            Arc::<Mutex<Vec<_>>>::default(),
            Arc::new(Semaphore::new(ends)),
        );
        let find = {
            let (begun, ends) = (Arc::clone(&begun), Arc::clone(&ends));
            move |(_, name): &Name| {
                let nth = {
                    let mut begun = lock(&begun);
                    begun.push(name.clone());
                    begun.len()
                };
                let (ends, panics) = (Arc::clone(&ends), name == "panics");
                let steps = async move {
                    ends.acquire_owned().await.unwrap().forget();
                    assert!(!panics, "the test's own");
                    Ok(action(nth))
                };
                (name != "gone").then(|| Reconcile {
                    kind: "Run".to_owned(),
                    name: name.clone(),
                    steps: steps.boxed(),
                })
            }
        };
        let shutdown = CancellationToken::new();
        let reconciler = trigger.reconcilers().next().unwrap();
        let (requests, until) = (reconciler.open(), shutdown.clone());
        let serving =
            tokio::spawn(async move { reconciler.serve(requests, most, &until, find).await });
        Self {
            trigger,
            shutdown,
            begun,
            ends,
            serving,
        }
    }

    fn request(&self, names: &[&str]) {
        for name in names {
            self.trigger.enqueue("team", name);
        }
    }

    /// Waits until exactly these reconciles have begun, in this order.
    async fn begins(&self, names: &[&str]) {
        let as_expected = async {
            while *lock(&self.begun) != names {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let timely = timeout(Duration::from_secs(10), as_expected).await;
        assert!(timely.is_ok(), "{:?}, not {names:?}", lock(&self.begun));
        sleep(MOMENT).await;
        assert_eq!(*lock(&self.begun), names);
    }
}

fn rest(_: usize) -> Action {
    Action::await_change()
}

/// Proves: P-metrics
#[tokio::test]
async fn an_object_waits_once_however_often_it_is_requested() {
    let world = World::new(1, 0, rest);
    world.request(&["a"]);
    world.begins(&["a"]).await;
    world.request(&["b", "b"]);
    sleep(MOMENT).await;
    world.request(&["c", "b", "c"]);
    sleep(MOMENT).await;
    let (count, longest) = world.trigger.in_flight();
    assert!(count == 1 && longest >= 3 * MOMENT, "{longest:?}");
    world.ends.add_permits(10);
    world.begins(&["a", "b", "c"]).await;
    assert_eq!(world.trigger.in_flight().0, 0);
}

#[tokio::test]
async fn an_object_requested_during_its_reconcile_follows_after_what_waits() {
    let world = World::new(1, 0, rest);
    world.request(&["a"]);
    world.begins(&["a"]).await;
    world.request(&["a", "b", "a"]);
    sleep(MOMENT).await;
    world.ends.add_permits(10);
    world.begins(&["a", "b", "a"]).await;
}

/// Others could use its permit: it waits neither for what came before nor for a place.
#[tokio::test]
async fn who_is_woken_waits_for_no_place() {
    let world = World::new(1, 0, rest);
    world.request(&["a"]);
    world.begins(&["a"]).await;
    world.request(&["b"]);
    sleep(MOMENT).await;
    world.trigger.wake("team", "b");
    world.trigger.wake("team", "c");
    world.begins(&["a", "b", "c"]).await;
    // During its reconcile: once more after it.
    world.trigger.wake("team", "a");
    sleep(MOMENT).await;
    world.ends.add_permits(10);
    world.begins(&["a", "b", "c", "a"]).await;
}

#[tokio::test]
async fn a_request_brings_the_next_reconcile_forward() {
    let world = World::new(9, 9, |nth| match nth {
        1 => Action::requeue(Duration::from_secs(2)),
        2 => Action::requeue(MOMENT),
        _ => Action::await_change(),
    });
    world.request(&["a"]);
    sleep(MOMENT).await;
    world.request(&["a"]);
    // The second by the request, and the third after its pause.
    world.begins(&["a", "a", "a"]).await;
    sleep(Duration::from_secs(2)).await;
    world.begins(&["a", "a", "a"]).await;
}

/// Proves: F-undecodable
#[tokio::test]
async fn a_panic_ends_one_reconcile_alone() {
    let world = World::new(1, 9, rest);
    world.request(&["panics"]);
    world.begins(&["panics"]).await;
    world.request(&["a"]);
    world.begins(&["panics", "a"]).await;
    let reconcile = Reconcile {
        kind: "Run".to_owned(),
        name: "panics".to_owned(),
        steps: async { panic!("the test's own") }.boxed(),
    };
    let (name, reconciler) = (Name::default(), world.trigger.reconcilers().next().unwrap());
    let again = reconciler.carry_out(&name, reconcile, Instant::now()).await;
    assert_eq!(again, Action::requeue(AFTER_PANIC));
}

#[tokio::test]
async fn an_object_that_is_gone_is_looked_for_at_each_request() {
    let world = World::new(1, 0, rest);
    world.request(&["gone"]);
    world.begins(&["gone"]).await;
    world.request(&["gone"]);
    world.begins(&["gone", "gone"]).await;
    assert_eq!(world.trigger.in_flight().0, 0);
}

/// Proves: P-shutdown
#[tokio::test]
async fn at_shutdown_what_waits_is_dropped_and_what_has_begun_ends() {
    let world = World::new(1, 0, rest);
    world.request(&["a"]);
    world.begins(&["a"]).await;
    world.request(&["b", "a"]);
    world.shutdown.cancel();
    sleep(MOMENT).await;
    assert!(!world.serving.is_finished(), "a reconcile is in flight");
    world.ends.add_permits(10);
    let ended = timeout(Duration::from_secs(10), world.serving).await;
    assert!(matches!(ended, Ok(Ok(()))), "{ended:?}");
    assert_eq!(*lock(&world.begun), ["a"]);
}

/// Proves: P-leader
#[tokio::test]
async fn what_is_requested_of_a_standby_is_dropped() {
    let trigger = Trigger::new("run", &[Scope::All], &Arc::new(Metrics::new()));
    trigger.enqueue("team", "early");
    let mut requests = trigger.reconcilers().next().unwrap().open();
    trigger.enqueue("team", "later");
    let first = requests.due.next().await.unwrap();
    assert_eq!(first.message.1, "later");
}
