use crate::api::Contract;
use crate::controller::state::fixtures::{URL, client, key, key_in};
use crate::service::Token;

use super::*;

/// A verified session with this number.
fn ready(number: u64) -> WorkspaceState {
    let contract = Contract::builtin().unwrap();
    let token = Token::parse(b"canary-of-the-registry", &contract).unwrap();
    let limiter = CallLimiter::new(key(), Arc::new(Metrics::new()));
    let resolved = ResolvedWorkspace {
        kind: key().kind,
        name: key().name,
        uid: "w1".to_owned(),
        base_url: URL.to_owned(),
        identity: None,
    };
    let verified = Session {
        number,
        resolved,
        submissions_blocked: None,
    };
    let session = ClientSession {
        client: client(),
        credentials: Credentials {
            token,
            workspace_id: None,
        },
        number,
        limiter: Arc::new(limiter),
    };
    WorkspaceState::ready(verified, Arc::new(session))
}

/// Proves: P-workspace-holds, P-rotation
#[test]
fn a_rejected_token_ends_its_session_and_triggers_one_probe() {
    let workspaces = Workspaces::default();
    let entry = workspaces.entry(&key());
    entry.set(ready(2));
    // A call of an earlier session is no evidence about the token of this one.
    assert!(!entry.suspect(1, ProbeTrigger::Unauthorized));
    assert!(entry.state().session.is_some());
    assert!(entry.suspect(2, ProbeTrigger::Unauthorized));
    assert!(entry.state().session.is_none());
    assert!(!entry.suspect(2, ProbeTrigger::Unauthorized));
}

/// Proves: P-one-failure, P-stream-session
#[test]
fn a_rejected_token_closes_no_stream_of_its_place() {
    let workspaces = Workspaces::default();
    let entry = workspaces.entry(&key());
    entry.set(ready(2));
    let place = entry.state().place.clone().unwrap();
    entry.suspect(2, ProbeTrigger::Unauthorized);
    assert!(entry.state().keeps(&place));
    let elsewhere = ResolvedWorkspace {
        base_url: "http://localhost:2/api/v1".to_owned(),
        ..(*place).clone()
    };
    assert!(!entry.state().keeps(&elsewhere));
    entry.set(WorkspaceState::closed(WorkspaceView::Missing));
    assert!(!entry.state().keeps(&place));
}

#[test]
fn a_suspected_outage_keeps_the_session() {
    let workspaces = Workspaces::default();
    let entry = workspaces.entry(&key());
    entry.set(ready(2));
    assert!(!entry.suspect(1, ProbeTrigger::Outage), "long ago");
    assert!(entry.suspect(2, ProbeTrigger::Outage));
    assert!(
        !entry.suspect(2, ProbeTrigger::Outage),
        "it is raised already"
    );
    assert!(entry.state().session.is_some());
    entry.probe(Probe::begin);
    assert!(entry.suspect(2, ProbeTrigger::Outage));
}

/// Proves: P-secret-forgotten
#[test]
fn an_absent_workspace_is_kept_only_for_its_subscribers() {
    let workspaces = Workspaces::default();
    assert_eq!(workspaces.state(&key()).view, WorkspaceView::Unknown);
    assert!(workspaces.all().is_empty(), "a look keeps nothing");
    let mut waiting = workspaces.subscribe(&key());
    workspaces.forget(&key());
    let entry = workspaces.get(&key()).unwrap();
    assert!(entry.set(WorkspaceState::closed(WorkspaceView::Missing)));
    assert!(waiting.has_changed().unwrap(), "it was not forgotten");
    waiting.mark_unchanged();
    drop(waiting);
    workspaces.forget(&key());
    assert!(workspaces.all().is_empty());
}

/// Proves: P-last-token, P-calls-apart, P-secret-forgotten, P-rate-limit
#[test]
fn all_that_is_kept_of_a_workspace_is_forgotten_with_it() {
    let workspaces = Workspaces::default();
    let entry = workspaces.entry(&key());
    let followed = workspaces.subscribe(&key());
    let metrics = Arc::new(Metrics::new());
    let limiter = |entry: &WorkspaceEntry| entry.limiter(&metrics);
    let before = limiter(&entry);
    assert!(Arc::ptr_eq(&before, &limiter(&entry)), "it keeps its limit");
    let other = key_in("other");
    assert!(!Arc::ptr_eq(&before, &limiter(&workspaces.entry(&other))));
    entry.probe(Probe::write_failed);
    entry.close_submissions();
    workspaces.forget(&other);
    workspaces.forget(&key());
    assert_eq!(workspaces.all().len(), 1, "the one that is followed");
    assert!(!Arc::ptr_eq(&before, &limiter(&entry)));
    assert_eq!(entry.probe(Probe::write_failed), 1);
    assert!(!entry.submissions_closed());
    drop(followed);
}

/// Proves: P-workspace-finalizer
#[test]
fn a_deletion_blocks_submissions_and_awaits_those_in_flight() {
    let workspaces = Workspaces::default();
    let entry = workspaces.entry(&key());
    let first = workspaces.begin_submission(&key()).unwrap();
    assert!(!entry.close_submissions(), "one is in flight");
    assert!(workspaces.begin_submission(&key()).is_none());
    workspaces.forget(&key());
    assert!(workspaces.get(&key()).is_some(), "one is in flight");
    assert!(!entry.close_submissions());
    drop(first);
    assert!(entry.close_submissions(), "none is in flight now");
    entry.open_submissions();
    assert!(workspaces.begin_submission(&key()).is_some());
}

/// Calls at `origin` that don't end; returns those that have begun.
fn hang<'a>(
    places: &'a CheckPlaces,
    origin: &str,
    calls: usize,
) -> (Arc<AtomicU64>, Vec<futures::future::BoxFuture<'a, ()>>) {
    let begun = Arc::new(AtomicU64::new(0));
    let calls = (0..calls).map(|_| {
        let (begun, origin) = (Arc::clone(&begun), origin.to_owned());
        let mut call = Box::pin(async move {
            let hanging = async {
                begun.fetch_add(1, Ordering::Relaxed);
                std::future::pending().await
            };
            places.call(&origin, hanging).await
        });
        assert!(futures::FutureExt::now_or_never(&mut call).is_none());
        call as futures::future::BoxFuture<'_, ()>
    });
    let calls = calls.collect();
    (begun, calls)
}

/// Proves: P-many-workspaces
#[test]
fn the_calls_of_checks_are_bounded_and_three_origins_that_hang_delay_no_other() {
    let places = CheckPlaces::default();
    let begun = |(begun, _): &(Arc<AtomicU64>, _)| begun.load(Ordering::Relaxed);
    let hanging: Vec<_> = (0..3)
        .map(|n| hang(&places, &format!("https://hangs-{n}"), 1000))
        .collect();
    assert!(hanging.iter().all(|calls| begun(calls) == 8));
    let good = hang(&places, "https://good", 10);
    assert_eq!(begun(&good), 8);
    let late = hang(&places, "https://late", 1);
    assert_eq!(begun(&late), 0, "32 are in flight");
    // Thousands that gave up, with a place or without one, leave nothing behind.
    drop((hanging, good, late));
    let again = hang(&places, "https://late", 9);
    assert_eq!(begun(&again), 8);
    assert_eq!(lock(&places.origins).len(), 1);
}
