use prometheus_client::registry::Registry;

use crate::controller::metrics::queue_metrics;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn queue() -> (WorkQueue, QueueMetrics, Instant) {
    let metrics = queue_metrics(&mut Registry::default(), "run");
    let queue = WorkQueue::new(metrics.clone());
    queue.open();
    (queue, metrics, Instant::now())
}

fn name(name: &str) -> Name {
    ("team".to_owned(), name.to_owned())
}

/// Begins the reconcile of the next object, if one is ready.
fn taken(queue: &WorkQueue, now: Instant) -> Option<String> {
    let ready = queue.take(now).ok()?;
    queue.begun(ready.waited);
    Some(ready.name.1.clone())
}

/// Begins the reconcile of the next object.
fn take(queue: &WorkQueue, now: Instant) -> Arc<Name> {
    queue.take(now).unwrap().name
}

fn near(seconds: f64, expected: f64) -> bool {
    (seconds - expected).abs() < 1e-6
}

/// Proves: P-metrics
#[test]
fn a_queued_object_waits_once_however_often_it_is_requested() {
    let (queue, metrics, start) = queue();
    queue.add(name("a"), start);
    queue.add(name("a"), start + SECOND);
    queue.add(name("b"), start + SECOND);
    let totals = queue.totals(start + SECOND);
    assert_eq!((totals.depth, metrics.adds()), (2, 2));
    assert_eq!(taken(&queue, start + 3 * SECOND).as_deref(), Some("a"));
    assert!(near(metrics.waited_sum(), 3.0));
    let totals = queue.totals(start + 5 * SECOND);
    assert_eq!((totals.depth, totals.active), (1, 1));
    assert_eq!(totals.longest, 2 * SECOND);
}

/// Proves: P-metrics
#[test]
fn an_object_whose_time_has_come_waits_from_then_on() {
    let (queue, metrics, start) = queue();
    queue.add(name("a"), start);
    let a = take(&queue, start);
    let again = Some(10 * SECOND);
    assert_eq!(queue.done(&a, again, start + SECOND), SECOND);
    assert_eq!(queue.totals(start + 5 * SECOND).depth, 0);
    let timer = queue.take(start + 5 * SECOND);
    assert_eq!(timer, Err(Some(start + 11 * SECOND)));
    assert_eq!(queue.totals(start + 12 * SECOND).depth, 1);
    assert_eq!(taken(&queue, start + 13 * SECOND).as_deref(), Some("a"));
    assert!(near(metrics.waited_sum(), 2.0));
    assert_eq!(metrics.adds(), 2);
}

/// Proves: P-metrics
#[test]
fn an_object_requested_during_its_reconcile_follows_after_it() {
    let (queue, metrics, start) = queue();
    queue.add(name("a"), start);
    let a = take(&queue, start);
    queue.add(name("a"), start + SECOND);
    queue.add(name("a"), start + SECOND);
    let totals = queue.totals(start + SECOND);
    assert_eq!((totals.depth, metrics.adds()), (0, 2));
    assert_eq!(taken(&queue, start + SECOND), None, "it is in flight");
    // Earlier than its timer.
    queue.done(&a, Some(60 * SECOND), start + 2 * SECOND);
    assert_eq!(queue.totals(start + 2 * SECOND).depth, 1);
    let a = take(&queue, start + 2 * SECOND);
    queue.done(&a, None, start + 2 * SECOND);
    assert!(lock(&queue.items).is_empty());
}

#[test]
fn an_object_both_due_and_requested_is_queued_once() {
    let (queue, metrics, start) = queue();
    queue.add(name("a"), start);
    let a = take(&queue, start);
    queue.done(&a, Some(10 * SECOND), start);
    queue.add(name("a"), start + 12 * SECOND);
    assert_eq!(metrics.adds(), 1, "it waits already");
    assert!(taken(&queue, start + 13 * SECOND).is_some());
    assert_eq!(metrics.adds(), 2);
    assert!(near(metrics.waited_sum(), 3.0));
    queue.add(name("b"), start + 14 * SECOND);
    assert!(taken(&queue, start + 14 * SECOND).is_some());
    let totals = queue.totals(start + 15 * SECOND);
    assert_eq!(totals.longest, 2 * SECOND);
    assert!(near(totals.unfinished, 3.0));
}

#[test]
fn a_request_brings_a_timer_forward() {
    let (queue, _, start) = queue();
    queue.add(name("a"), start);
    let a = take(&queue, start);
    queue.done(&a, Some(60 * SECOND), start);
    queue.add(name("a"), start + SECOND);
    let a = take(&queue, start + SECOND);
    queue.done(&a, None, start + SECOND);
    assert_eq!(queue.take(start + 120 * SECOND), Err(None), "no timer");
}

#[test]
fn objects_are_taken_in_the_order_in_which_they_became_ready() {
    let (queue, _, start) = queue();
    for (one, since) in [("c", 0), ("a", 1), ("b", 2)] {
        queue.add(name(one), start + since * SECOND);
    }
    let order: Vec<_> = std::iter::from_fn(|| taken(&queue, start + 5 * SECOND)).collect();
    assert_eq!(order, ["c", "a", "b"]);
}

/// Proves: P-metrics
#[test]
fn a_deleted_object_is_removed_unless_another_was_created() {
    let (queue, _, start) = queue();
    queue.add(name("a"), start);
    let a = take(&queue, start);
    queue.add(name("a"), start);
    queue.missing(&a);
    assert_eq!(take(&queue, start), a);
    queue.missing(&a);
    assert!(lock(&queue.items).is_empty());
}

#[test]
fn a_queue_that_is_not_open_keeps_nothing() {
    let start = Instant::now();
    let queue = WorkQueue::new(queue_metrics(&mut Registry::default(), "run"));
    queue.add(name("a"), start);
    queue.open();
    assert_eq!(taken(&queue, start), None);
}

#[tokio::test]
async fn a_waiting_taker_is_told_of_a_request_and_of_an_end() {
    let (queue, _, start) = queue();
    let (queue, other) = (Arc::new(queue), name("a"));
    let taker = tokio::spawn({
        let queue = Arc::clone(&queue);
        async move { (queue.next().await.name, queue.next().await.name) }
    });
    queue.add(other.clone(), start);
    while queue.totals(start).active == 0 {
        tokio::task::yield_now().await;
    }
    queue.add(other.clone(), start);
    queue.done(&Arc::new(other), None, start);
    let (first, second) = taker.await.unwrap();
    assert_eq!(first, second);
}
