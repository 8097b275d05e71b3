#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::collections::BTreeSet;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;
use crate::controller::metrics::REASONS;

const MOMENT: Duration = Duration::from_millis(200);

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
    let first = requests.next().await.unwrap();
    assert_eq!(first.message.name.1, "later");
}

fn errors() -> Vec<ReconcileError> {
    let refused = || kube::Error::LinesCodecMaxLineLengthExceeded;
    vec![
        ReconcileError::Undecodable("spec".into()),
        WriteError::Refused(refused()).into(),
        WriteError::Failed(refused()).into(),
        WriteError::Timeout.into(),
        WriteError::Serialize(serde::ser::Error::custom("no")).into(),
        ListError::Page(refused()).into(),
        ReconcileError::NoAnswer,
        ReconcileError::NoFile,
        ReconcileError::Panicked,
    ]
}

#[test]
fn every_error_has_a_reason_that_the_metric_knows() {
    let reasons: BTreeSet<_> = errors().iter().filter_map(ReconcileError::reason).collect();
    assert_eq!(reasons, REASONS.iter().copied().collect());
}

/// Proves: F-undecodable
#[tokio::test]
async fn a_panic_is_caught_and_logged_with_the_object_s_name() {
    assert!(matches!(caught(async { 7 }).await, Ok(7)));
    let caught = caught::<()>(async { panic!("the test's own") });
    let error = caught.await.unwrap_err();
    assert_eq!(error.reason(), Some(PANIC));
    let failed = error.again(Action::await_change());
    assert!(matches!(failed.error, ReconcileError::Panicked));
    let log = tempfile::NamedTempFile::new().unwrap();
    let lines = tracing_subscriber::fmt().with_writer(Arc::new(log.reopen().unwrap()));
    tracing::subscriber::with_default(lines.finish(), || {
        failed.log("Run", Some("team"), "odd");
    });
    let log = std::fs::read_to_string(log.path()).unwrap();
    for part in ["ERROR", "the reconcile panicked;", "team", "odd"] {
        assert!(log.contains(part), "{log}");
    }
}

#[test]
fn a_conflict_is_no_error_and_keeps_its_pause() {
    let again = Action::requeue(Duration::from_secs(1));
    for error in [WriteError::Conflict, WriteError::Gone] {
        let failed = ReconcileError::from(error).again(again);
        assert_eq!(failed.again, again);
        assert_eq!(label(&Err(failed)), CONFLICT);
    }
    assert_eq!(label(&Ok(again)), REQUEUE_AFTER);
    assert_eq!(label(&Ok(Action::await_change())), SUCCESS);
}
