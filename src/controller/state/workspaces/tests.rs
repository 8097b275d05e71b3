use crate::api::Contract;
use crate::controller::state::fixtures::{URL, client, key, key_in};
use crate::service::{AllowList, Token};

use super::*;

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

/// Proves: P-workspace-check, P-rotation
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

/// Proves: P-one-failure, P-rotation
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
    entry.checks(Checks::begin);
    assert!(entry.suspect(2, ProbeTrigger::Outage));
}

/// Proves: X-secrets-by-name
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

/// Proves: P-last-token, P-calls-bound, X-secrets-by-name
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
    entry.checks(|checks| checks.failed_writes = 1);
    entry.close_submissions();
    workspaces.forget(&other);
    workspaces.forget(&key());
    assert_eq!(workspaces.all().len(), 1, "the one that is followed");
    assert!(!Arc::ptr_eq(&before, &limiter(&entry)));
    assert_eq!(entry.checks(|checks| checks.failed_writes), 0);
    assert!(!entry.submissions.is_closed());
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
    entry.submissions.reopen();
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
                std::future::pending::<()>().await;
            };
            places.call(&origin, hanging).await;
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
    let places = Workspaces::default().check_places;
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

fn checked(at: Timestamp) -> Checks {
    let mut checks = Checks::default();
    let last = LastCheck {
        uid: "u".to_owned(),
        generation: 1,
        held: true,
        ready: true,
        failure_ignored: false,
        at,
        next: later(at, Duration::from_mins(5)),
    };
    checks.done(last);
    checks
}

fn due_at(checks: &mut Checks, now: Timestamp) -> Option<Timestamp> {
    checks.due_later("u", 1, true, now)
}

/// Proves: P-workspace-check
#[test]
fn a_reconnect_draws_the_next_check_nearer_once_for_all_streams() {
    let start = Timestamp::UNIX_EPOCH;
    let mut checks = checked(start);
    let soon = later(start, Duration::from_secs(10));
    let after = later(start, RECONNECTS_APART);
    assert!(checks.reconnected(soon));
    assert_eq!(due_at(&mut checks, soon), Some(after));
    for _ in 0..1000 {
        assert!(!checks.reconnected(soon));
    }
    assert_eq!(due_at(&mut checks, after), None, "the check is due");
}

/// Proves: P-workspace-check
#[test]
fn a_reconnect_neither_delays_a_probe_nor_triggers_the_first() {
    let start = Timestamp::UNIX_EPOCH;
    assert!(!Checks::default().reconnected(start));
    let mut checks = checked(start);
    let before_the_next = later(start, Duration::from_secs(299));
    assert!(checks.reconnected(before_the_next));
    let past_the_next = later(start, Duration::from_secs(301));
    assert!(!checks.reconnected(past_the_next));
    assert_eq!(due_at(&mut checks, past_the_next), None);
}

/// Proves: P-rotation
#[test]
fn a_new_object_generation_or_secret_is_probed_at_once() {
    let start = Timestamp::UNIX_EPOCH;
    let mut checks = checked(start);
    let due = |checks: &Checks, uid: &str, generation: i64| {
        checks.due_later(uid, generation, true, start).is_none()
    };
    assert!(!due(&checks, "u", 1), "nothing changed");
    assert!(due(&checks, "another", 1) && due(&checks, "u", 2));
    checks.due_at_once = true;
    assert!(due(&checks, "u", 1));
    checks.begin();
    assert!(!due(&checks, "u", 1), "one change, one check");
}

/// Proves: P-workspace-check
#[test]
fn a_suspicion_leads_to_one_check_a_second() {
    let start = Timestamp::UNIX_EPOCH;
    let mut checks = checked(start);
    assert!(checks.suspect() && !checks.suspect(), "it is raised once");
    let suspected = |now| checks.due_later("u", 1, true, now);
    let soonest = later(start, SUSPICIONS_APART);
    let just_before = later(start, SUSPICIONS_APART / 2);
    assert_eq!(suspected(just_before), Some(soonest));
    assert_eq!(suspected(soonest), None);
}

/// Proves: P-workspace-finalizer
#[test]
fn a_finalizer_that_is_removed_is_missed_at_once_and_one_that_is_refused_when_a_check_is_due() {
    let start = Timestamp::UNIX_EPOCH;
    let removed = checked(start).due_later("u", 1, false, start);
    assert_eq!(removed, None);
    let mut checks = checked(start);
    checks.last.as_mut().unwrap().held = false;
    let refused = checks.due_later("u", 1, false, start);
    assert!(refused.is_some());
    assert_eq!(checks.due_later("u", 1, true, start), None);
}

#[test]
fn a_client_is_kept_for_one_base_url_and_one_ca() {
    let mut checks = Checks::default();
    let ca = b"one".to_vec();
    let at = |url: &str| BaseUrl::parse(url, &AllowList::parse([url], false).unwrap()).unwrap();
    let made = checks.client(at(URL), Some(&ca), |_| Ok::<_, ()>(client()));
    assert!(made.is_ok());
    let mut kept = |url: &str, ca: Option<&[u8]>| {
        let another = |_| Err("another must be made");
        checks.client(at(url), ca, another).is_ok()
    };
    assert!(kept(URL, Some(&ca)));
    assert!(!kept("http://localhost:2/api/v1", Some(&ca)));
    assert!(!kept(URL, Some(b"another")) && !kept(URL, None));
}

/// Proves: P-last-token
#[test]
fn the_last_good_token_is_of_one_workspace_at_one_base_url() {
    let verified = |uid: &str, base_url: &str| Verified {
        uid: uid.to_owned(),
        base_url: base_url.to_owned(),
    };
    let contract = Contract::builtin().unwrap();
    let mut checks = Checks::default();
    let good = LastGood {
        verified: verified("w1", "https://a"),
        token: Token::parse(b"canary-of-the-checks", &contract).unwrap(),
        ca_pem: None,
    };
    checks.verified(good);
    // As long as the Secret is missing, no check finds the Workspace Ready.
    let unready = LastCheck {
        uid: "w1".to_owned(),
        generation: 1,
        held: true,
        ready: false,
        failure_ignored: false,
        at: Timestamp::UNIX_EPOCH,
        next: Timestamp::UNIX_EPOCH,
    };
    checks.done(unready);
    let kept = |verified| checks.last_good(&verified).is_some();
    assert!(kept(verified("w1", "https://a")));
    assert!(!kept(verified("w2", "https://a")), "created again");
    assert!(!kept(verified("w1", "https://b")), "another service");
}
