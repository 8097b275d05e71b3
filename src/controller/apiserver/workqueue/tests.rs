use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn queue() -> (WorkQueue, Instant) {
    let queue = WorkQueue::default();
    queue.open();
    (queue, Instant::now())
}

fn name(name: &str) -> Name {
    ("team".to_owned(), name.to_owned())
}

/// Begins the reconcile of the next object, if one is ready.
fn taken(queue: &WorkQueue, now: Instant) -> Option<String> {
    Some(queue.take(now).ok()?.1.clone())
}

/// Begins the reconcile of the next object.
fn take(queue: &WorkQueue, now: Instant) -> Arc<Name> {
    queue.take(now).unwrap()
}

/// Proves: P-metrics
#[test]
fn a_queued_object_waits_once_however_often_it_is_requested() {
    let (queue, start) = queue();
    queue.add(name("a"), start);
    queue.add(name("a"), start + SECOND);
    queue.add(name("b"), start + SECOND);
    let now = start + 3 * SECOND;
    assert_eq!(taken(&queue, now).as_deref(), Some("a"));
    assert_eq!(taken(&queue, now).as_deref(), Some("b"));
    assert_eq!(taken(&queue, now), None);
    let two = InFlight {
        count: 2,
        longest: 2 * SECOND,
    };
    assert_eq!(queue.in_flight(start + 5 * SECOND), two);
}

#[test]
fn an_object_whose_time_has_come_waits_from_then_on() {
    let (queue, start) = queue();
    queue.add(name("a"), start);
    let a = take(&queue, start);
    let again = Some(10 * SECOND);
    assert_eq!(queue.done(&a, again, start + SECOND), SECOND);
    let timer = queue.take(start + 5 * SECOND);
    assert_eq!(timer, Err(Some(start + 11 * SECOND)));
    // It waits for longer than one that was requested later.
    queue.add(name("b"), start + 12 * SECOND);
    assert_eq!(taken(&queue, start + 13 * SECOND).as_deref(), Some("a"));
}

#[test]
fn an_object_requested_during_its_reconcile_follows_after_it() {
    let (queue, start) = queue();
    queue.add(name("a"), start);
    let a = take(&queue, start);
    queue.add(name("a"), start + SECOND);
    queue.add(name("a"), start + SECOND);
    assert_eq!(taken(&queue, start + SECOND), None, "it is in flight");
    // Earlier than its timer.
    queue.done(&a, Some(60 * SECOND), start + 2 * SECOND);
    let a = take(&queue, start + 2 * SECOND);
    queue.done(&a, None, start + 2 * SECOND);
    assert!(lock(&queue.items).is_empty());
}

#[test]
fn an_object_both_due_and_requested_is_queued_once() {
    let (queue, start) = queue();
    queue.add(name("a"), start);
    let a = take(&queue, start);
    queue.done(&a, Some(10 * SECOND), start);
    queue.add(name("a"), start + 12 * SECOND);
    assert!(taken(&queue, start + 13 * SECOND).is_some());
    queue.done(&a, None, start + 13 * SECOND);
    assert!(lock(&queue.items).is_empty());
}

#[test]
fn a_request_brings_a_timer_forward() {
    let (queue, start) = queue();
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
    let (queue, start) = queue();
    for (one, since) in [("c", 0), ("a", 1), ("b", 2)] {
        queue.add(name(one), start + since * SECOND);
    }
    let order: Vec<_> = std::iter::from_fn(|| taken(&queue, start + 5 * SECOND)).collect();
    assert_eq!(order, ["c", "a", "b"]);
}

#[test]
fn a_deleted_object_is_removed_unless_another_was_created() {
    let (queue, start) = queue();
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
    let queue = WorkQueue::default();
    queue.add(name("a"), start);
    queue.open();
    assert_eq!(taken(&queue, start), None);
}

#[tokio::test]
async fn a_waiting_taker_is_told_of_a_request_and_of_an_end() {
    let (queue, start) = queue();
    let (queue, other) = (Arc::new(queue), name("a"));
    let taker = tokio::spawn({
        let queue = Arc::clone(&queue);
        async move { (queue.next().await, queue.next().await) }
    });
    queue.add(other.clone(), start);
    while queue.in_flight(start).count == 0 {
        tokio::task::yield_now().await;
    }
    queue.add(other.clone(), start);
    queue.done(&Arc::new(other), None, start);
    let (first, second) = taker.await.unwrap();
    assert_eq!(first, second);
}
