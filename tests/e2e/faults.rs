//! Faults of the transport and of the answers, for each operation: one run for each object, under the
//! object's uid and by the same bytes, the right end, and meanwhile a message that names the fault.

use rstest::rstest;
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase, Run, names};

use crate::support::{History, Setup, World, condition_of, contract_file, holds_for_a_while, says};

/// A fault, and the words that a person reads while it lasts.
struct Fault {
    name: &'static str,
    action: Value,
    words: &'static [&'static str],
}

const NO_ANSWER: &str = "The service gave no answer";
const UNREADABLE: &str = "The service's answer can't be read";

/// Faults that any answer may have, after which the request is repeated.
fn passing() -> Vec<Fault> {
    let fault = |name, action, words| Fault {
        name,
        action,
        words,
    };
    vec![
        fault("lost-after", json!({"type": "doThenLose"}), &[NO_ANSWER]),
        fault("lost-before", json!({"type": "loseBefore"}), &[NO_ANSWER]),
        fault(
            "throttled",
            json!({"type": "answer", "status": 429, "headers": {"Retry-After": "1"}}),
            &["429 injected_429", "Request id"],
        ),
        fault(
            "failing",
            json!({"type": "answer", "status": 503}),
            &["503 injected_503", "Request id"],
        ),
        fault(
            "bad-gateway",
            json!({"type": "answer", "status": 502, "body": "<html>Bad Gateway</html>"}),
            &["502 without a problem body"],
        ),
        fault(
            "gateway-timeout",
            json!({"type": "answer", "status": 504, "body": "", "contentType": "text/plain"}),
            &["504 without a problem body"],
        ),
        fault(
            "truncated",
            json!({"type": "truncatedBody"}),
            &[NO_ANSWER, "to its end"],
        ),
        fault(
            "silent",
            json!({"type": "hang", "forMs": 60_000, "execute": true}),
            &[NO_ANSWER, "within 2 s"],
        ),
        fault(
            "no-json",
            json!({"type": "invalidJson"}),
            &[UNREADABLE, "not JSON"],
        ),
        fault(
            "huge",
            json!({"type": "hugeBody", "bytes": 2_000_000}),
            &[UNREADABLE, "larger than"],
        ),
        fault(
            "redirected",
            json!({"type": "redirect", "location": "http://127.0.0.1:9/elsewhere"}),
            &[UNREADABLE, "redirect"],
        ),
    ]
}

/// A world whose operator waits seconds where it else waits half a minute.
pub(crate) async fn impatient(stem: &str) -> World {
    let path = contract_file(
        stem,
        &[
            ("connectSeconds: 5", "connectSeconds: 2"),
            ("requestSeconds: 30", "requestSeconds: 2"),
            ("streamIdleSeconds: 90", "streamIdleSeconds: 4"),
        ],
    );
    World::with(Setup {
        operator: vec!["--contract", path.leak()],
        service: vec!["--heartbeat", "1s"],
        ..Setup::default()
    })
    .await
}

/// Asserts that a version of the Run showed this condition with all the words.
fn was_told(history: &History, name: &str, kind: Type, status: &str, words: &[&str]) {
    let versions = history.of(name);
    let told = |run: &Run| {
        condition_of(run, kind)
            .is_some_and(|c| c.status == status && words.iter().all(|w| c.message.contains(w)))
    };
    let messages: Vec<_> = versions
        .iter()
        .filter_map(|run| condition_of(run, kind))
        .map(|c| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message))
        .collect();
    assert!(
        versions.iter().any(told),
        "{name} never told {words:?}; it told {messages:#?}"
    );
}

/// Proves: R1, R10a, F-retried
#[tokio::test]
async fn every_faulty_create_is_repeated_with_the_same_key_and_bytes() {
    let world = impatient("faults-create").await;
    let history = world.history().await;
    let mut faults = passing();
    faults.push(Fault {
        name: "without-run-id",
        action: json!({"type": "mergeBody", "merge": {"runId": null}}),
        words: &[UNREADABLE, "runId"],
    });
    for fault in &faults {
        let image = format!("example/{}", fault.name);
        let met = json!({"match": {"operation": "createRun", "image": image}, "action": fault.action, "times": 2});
        world.service.post("faults", met).await;
        world
            .create_run(fault.name, json!({"workload": {"image": image}}))
            .await;
    }
    for fault in &faults {
        let run = world.phase(fault.name, Phase::Succeeded).await;
        assert_eq!(
            run.status.as_ref().unwrap().last_error,
            None,
            "{}",
            fault.name
        );
        was_told(&history, fault.name, Type::Reconciling, "True", fault.words);
        assert_eq!(world.posts_of(&run).await, 3, "{}", fault.name);
    }
    assert_eq!(world.service.runs().await.len(), faults.len());
    world.one_run_each().await;
    history.holds().await;
}

#[tokio::test]
async fn a_create_answer_of_another_content_type_is_still_read() {
    let world = World::new().await;
    let action = json!({"type": "wrongContentType", "contentType": "text/html"});
    world
        .service
        .fault(json!({"operation": "createRun"}), action)
        .await;
    let created = world.create_run("train", json!({})).await;
    world.heals("train").await;
    assert_eq!(world.posts_of(&created).await, 1);
}

/// Proves: R10a, F-retried
#[tokio::test]
async fn retry_after_is_shown_and_honoured() {
    let world = World::new().await;
    let history = world.history().await;
    let action = json!({"type": "answer", "status": 429, "headers": {"Retry-After": "7"}});
    world
        .service
        .fault(json!({"operation": "createRun"}), action)
        .await;
    world.create_run("train", json!({})).await;
    world.heals("train").await;
    let errors: Vec<_> = history
        .of("train")
        .into_iter()
        .filter_map(|run| run.status?.last_error)
        .collect();
    let error = errors.first().unwrap();
    assert_eq!((error.http_status, error.attempts), (Some(429), 1));
    // The operator's own first pause is a second at most, and the status holds whole seconds.
    let next = error.next_attempt.as_ref().unwrap().0;
    assert!(
        next.as_second() - error.time.0.as_second() >= 6,
        "{error:?}"
    );
    let posts = world.service.requests("createRun").await;
    let at = |post: &Value| {
        post["at"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    let pause = at(&posts[1]).as_millisecond() - at(&posts[0]).as_millisecond();
    assert!(pause >= 7000, "asked again after {pause} ms");
}

/// Proves: F-final, F-403
#[rstest]
#[case::a_5xx_that_is_not_to_be_retried(json!({"status": 503, "retryable": false}), "ServerError", "ask its support")]
#[case::a_429_that_is_not_to_be_retried(json!({"status": 429, "retryable": false}), "Refused", "429 injected_429")]
#[case::a_403(json!({"status": 403, "code": "forbidden"}), "Forbidden", "token of the Workspace default")]
#[case::a_404(json!({"status": 404, "code": "region_not_found"}), "Refused", "404 region_not_found")]
#[tokio::test]
async fn each_final_create_answer_has_its_reason_and_awaits_a_retry(
    #[case] mut action: Value,
    #[case] reason: &str,
    #[case] words: &str,
) {
    action["type"] = json!("answer");
    refused_then_retried(action, reason, &[words, "Request id"]).await;
}

async fn refused_then_retried(refusal: Value, reason: &str, words: &[&str]) {
    let world = World::new().await;
    world
        .service
        .fault(json!({"operation": "createRun"}), refusal)
        .await;
    let created = world.create_run("train", json!({})).await;
    let run = world
        .condition("train", Type::Stalled, "True", reason)
        .await;
    says(&condition_of(&run, Type::Stalled).unwrap().message, words);
    assert_eq!(run.status.unwrap().phase, Some(Phase::Pending));
    holds_for_a_while(60, async || {
        assert_eq!(world.posts_of(&created).await, 1);
    })
    .await;
    let retry = json!({"metadata": {"annotations": {names::RETRY_ANNOTATION: "1"}}});
    world.patch_run("train", retry).await;
    world.heals("train").await;
    assert_eq!(world.posts_of(&created).await, 2);
}

/// Proves: F-violation
#[tokio::test]
async fn create_answers_without_a_run_id_stall_until_a_retry_finds_it() {
    let world = World::new().await;
    let nameless = json!({"type": "mergeBody", "merge": {"runId": null}});
    world
        .service
        .lasting_fault(json!({"operation": "createRun"}), nameless)
        .await;
    let created = world.create_run("train", json!({})).await;
    let run = world
        .condition("train", Type::Stalled, "True", "ContractViolation")
        .await;
    let told = condition_of(&run, Type::Stalled).unwrap().message;
    says(
        &told,
        &[
            UNREADABLE,
            "runId",
            "Check the base URL and the contract file",
        ],
    );
    assert_eq!(world.posts_of(&created).await, 5);
    assert_eq!(world.service.runs().await.len(), 1);
    world.service.delete("faults").await;
    let retry = json!({"metadata": {"annotations": {names::RETRY_ANNOTATION: "1"}}});
    world.patch_run("train", retry).await;
    world.heals("train").await;
}

/// Proves: P-synced
#[tokio::test]
async fn every_faulty_read_makes_the_mirror_stale_and_the_run_ends() {
    let world = impatient("faults-get").await;
    let history = world.history().await;
    let mut faults = passing();
    for (name, status, code, words) in [
        ("refused", 400, "bad_request", &["400 bad_request"][..]),
        (
            "route-unknown",
            404,
            "route_unknown",
            &["404 route_unknown"],
        ),
        ("conflict", 409, "moon_conflict", &["409 moon_conflict"]),
        ("forbidden", 403, "forbidden", &["403 forbidden"]),
    ] {
        let action = json!({"type": "answer", "status": status, "code": code});
        faults.push(Fault {
            name,
            action,
            words,
        });
    }
    for fault in &faults {
        let met = json!({"match": {"operation": "getRun", "runId": fault.name}, "action": fault.action, "times": 3});
        world.service.post("faults", met).await;
        world
            .simulate(fault.name, json!({"runId": fault.name}))
            .await;
    }
    for fault in &faults {
        let run = world.phase(fault.name, Phase::Succeeded).await;
        assert_eq!(
            run.status.as_ref().unwrap().last_error,
            None,
            "{}",
            fault.name
        );
        assert_eq!(condition_of(&run, Type::Synced).unwrap().status, "True");
        was_told(&history, fault.name, Type::Synced, "False", fault.words);
        assert_eq!(world.posts_of(&run).await, 1, "{}", fault.name);
    }
    world.one_run_each().await;
    history.holds().await;
}

/// Proves: D-refused
#[tokio::test]
async fn every_faulty_cancel_is_repeated_until_the_run_has_ended() {
    let world = impatient("faults-cancel").await;
    let history = world.history().await;
    let mut faults = passing();
    faults.push(Fault {
        name: "refused",
        action: json!({"type": "answer", "status": 409, "code": "cancel_refused"}),
        words: &["409 cancel_refused"],
    });
    for fault in &faults {
        let met = json!({"match": {"operation": "cancelRun", "runId": fault.name}, "action": fault.action, "times": 2});
        world.service.post("faults", met).await;
        world
            .simulate(fault.name, json!({"runId": fault.name, "outcome": "never"}))
            .await;
    }
    for fault in &faults {
        world.state(fault.name, "running").await;
        world
            .patch_run(fault.name, json!({"spec": {"cancel": true}}))
            .await;
    }
    for fault in &faults {
        world.phase(fault.name, Phase::Cancelled).await;
        let words = [&["cancellation is retried"], fault.words].concat();
        was_told(&history, fault.name, Type::Reconciling, "True", &words);
    }
    let runs = world.service.runs().await;
    assert!(
        runs.iter().all(|run| run["state"] == "cancelled"),
        "{runs:#?}"
    );
    world.one_run_each().await;
    history.holds().await;
}

/// Proves: P-poll
#[tokio::test]
async fn a_run_whose_events_are_refused_is_polled_to_its_end() {
    let world = impatient("faults-events").await;
    let history = world.history().await;
    let mut faults = passing();
    faults.retain(|fault| !["truncated", "no-json", "huge", "silent"].contains(&fault.name));
    for (name, action) in [
        (
            "refused",
            json!({"type": "answer", "status": 400, "code": "bad_request"}),
        ),
        (
            "forbidden",
            json!({"type": "answer", "status": 403, "code": "forbidden"}),
        ),
        (
            "no-event-stream",
            json!({"type": "wrongContentType", "contentType": "text/html"}),
        ),
        ("silent", json!({"type": "hang", "forMs": 60_000})),
    ] {
        faults.push(Fault {
            name,
            action,
            words: &[],
        });
    }
    for fault in &faults {
        let met = json!({"operation": "streamEvents", "runId": fault.name});
        world.service.lasting_fault(met, fault.action.clone()).await;
        world
            .simulate(fault.name, json!({"runId": fault.name}))
            .await;
    }
    for fault in &faults {
        let run = world.phase(fault.name, Phase::Succeeded).await;
        let status = run.status.as_ref().unwrap();
        assert_eq!(status.event_count.unwrap_or_default(), 0, "{}", fault.name);
    }
    let asked = world.service.requests("streamEvents").await;
    for fault in &faults {
        let tries = asked.iter().filter(|r| r["runId"] == fault.name).count();
        assert!(
            (1..=10).contains(&tries),
            "{} was tried {tries} times",
            fault.name
        );
    }
    world.one_run_each().await;
    history.holds().await;
}

/// Proves: F-401
#[tokio::test]
async fn creates_refused_with_a_verified_token_are_bounded() {
    let world = World::new().await;
    let refusal = json!({"type": "answer", "status": 401, "code": "unauthenticated"});
    world
        .service
        .lasting_fault(json!({"operation": "createRun"}), refusal)
        .await;
    let created = world.create_run("train", json!({})).await;
    let run = world
        .condition("train", Type::Reconciling, "True", "Retrying")
        .await;
    says(
        &condition_of(&run, Type::Ready).unwrap().message,
        &["401 unauthenticated"],
    );
    holds_for_a_while(120, async || {
        let posts = world.posts_of(&created).await;
        assert!(posts <= 8, "{posts} POSTs");
    })
    .await;
    world.service.delete("faults").await;
    world.heals("train").await;
}
