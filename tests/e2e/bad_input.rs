//! Bad input: each case gives a precise reason and a message that names what to do, resumes automatically
//! when its cause is removed, and neither loses nor doubles a run.

use rstest::rstest;
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase, names};

use crate::support::{Setup, TOKEN, World, condition_of, eventually, holds_for_a_while, says};

/// Number of checks in about three seconds: longer than the first pauses of the operator's own backoff.
const A_WHILE: u32 = 120;

/// A world whose Workspace and Secret the test makes itself, and a Run that waits for them.
async fn bare() -> World {
    let world = World::with(Setup {
        bare: true,
        ..Setup::default()
    })
    .await;
    world.create_run("train", json!({})).await;
    world
}

/// The operator made no request at all with a token.
async fn no_token_was_sent(world: &World) {
    let requests = world.service.get("requests").await;
    for request in requests.as_array().unwrap() {
        assert_eq!(request["token"], Value::Null, "{request}");
        assert_eq!(
            request["headers"]["authorization"],
            Value::Null,
            "{request}"
        );
    }
}

/// Proves: P-rotation
#[tokio::test]
async fn a_missing_secret_is_named_and_its_creation_is_enough() {
    let world = bare().await;
    world.create_workspace("default", json!({})).await;
    let words = [
        "Secret run-operator-token",
        "doesn't exist",
        "create it with the key token",
    ];
    world
        .held_by_workspace("SecretNotFound", false, &words)
        .await;
    world
        .workspace_condition("default", Type::Authenticated, "False", "SecretNotFound")
        .await;
    no_token_was_sent(&world).await;
    world.token(TOKEN).await;
    world.heals("train").await;
    world.workspace_ready("default", "True", "Verified").await;
}

#[tokio::test]
async fn a_missing_key_is_named_and_adding_it_is_enough() {
    let world = bare().await;
    let reference = json!({"tokenSecretRef": {"name": "elsewhere", "key": "api"}});
    world.create_workspace("default", reference).await;
    world.secret("elsewhere", json!({"token": TOKEN})).await;
    let words = [
        "Secret elsewhere",
        "has no key api",
        "add it, or name another",
    ];
    world
        .held_by_workspace("SecretKeyNotFound", true, &words)
        .await;
    no_token_was_sent(&world).await;
    world.secret("elsewhere", json!({"api": TOKEN})).await;
    world.heals("train").await;
}

/// Proves: R6, X-token
#[rstest]
#[case::empty("", "TokenMalformed", "the token is empty")]
#[case::white_space(" \n\t", "TokenMalformed", "the token is empty")]
#[case::of_several_lines("canary-one\ncanary-two", "TokenMalformed", "more than one line")]
#[case::with_its_scheme("Bearer canary-three", "TokenMalformed", "store only what follows it")]
#[case::with_a_letter_that_no_header_carries(
    "canary-tökén",
    "TokenMalformed",
    "header can't carry"
)]
#[case::that_is_a_providers_key("sk-canary-0a1b2c3d", "TokenIsProviderKey", "model provider's key")]
#[tokio::test]
async fn a_malformed_token_is_never_sent_and_correcting_it_suffices(
    #[case] token: &str,
    #[case] reason: &str,
    #[case] words: &str,
) {
    let world = bare().await;
    world.token(token).await;
    world.create_workspace("default", json!({})).await;
    let words = [
        "Secret run-operator-token, key token",
        words,
        "Correct the Secret",
    ];
    world.held_by_workspace(reason, true, &words).await;
    no_token_was_sent(&world).await;
    if token.contains("canary") {
        let log = world.operator_log();
        for part in token
            .split(['\n', ' '])
            .filter(|part| part.contains("canary"))
        {
            assert!(!log.contains(part), "the log tells {part}");
        }
    }
    world.token(TOKEN).await;
    world.heals("train").await;
}

/// Proves: X-token
#[tokio::test]
async fn a_token_with_white_space_around_it_is_good() {
    let world = bare().await;
    world.create_workspace("default", json!({})).await;
    world.token(&format!("  {TOKEN}\r\n")).await;
    world.heals("train").await;
}

/// Proves: X-allow-list
#[tokio::test]
async fn a_base_url_gets_no_request_until_the_allow_list_contains_it() {
    let mut world = bare().await;
    world.token(TOKEN).await;
    let url = world.service.base_url().replace("127.0.0.1", "localhost");
    world
        .create_workspace("default", json!({"baseUrl": url}))
        .await;
    let words = [
        "base URL",
        "is not on the operator's list of allowed base URLs",
        "Re-create the Workspace",
        "--allowed-base-url",
    ];
    world
        .held_by_workspace("BaseUrlNotAllowed", true, &words)
        .await;
    assert_eq!(world.service.get("requests").await, json!([]));
    world
        .restart_operator_with(&["--allowed-base-url", &url])
        .await;
    world.heals("train").await;
    let run = world.run("train").await;
    assert_eq!(run.status.unwrap().workspace.unwrap().base_url, url);
}

#[tokio::test]
async fn without_any_base_url_the_two_places_for_one_are_named() {
    let mut world = World::with(Setup {
        no_base_url: true,
        ..Setup::default()
    })
    .await;
    world.create_run("train", json!({})).await;
    let words = [
        "No base URL",
        "Re-create the Workspace with spec.baseUrl",
        "--base-url",
    ];
    world
        .held_by_workspace("BaseUrlNotAllowed", true, &words)
        .await;
    let url = world.service.base_url();
    world.restart_operator_with(&["--base-url", &url]).await;
    world.heals("train").await;
}

/// Proves: P-workspace-check, S-check-first, E-getVersion
#[tokio::test]
async fn a_base_url_without_its_version_segment_is_recognised() {
    let mut world = bare().await;
    world.token(TOKEN).await;
    let url = format!("http://{}", world.service.address());
    world
        .service
        .will_differ("the path /version is not below /api/v1");
    world
        .restart_operator_with(&["--allowed-base-url", &url])
        .await;
    world
        .create_workspace("default", json!({"baseUrl": url}))
        .await;
    let words = [
        "GET /version",
        "404",
        "version segment, such as /api/v1",
        "Request id",
    ];
    let told = world.workspace_condition("default", Type::Ready, "False", "ContractViolation");
    says(&told.await, &words);
    world
        .workspace_condition("default", Type::Stalled, "True", "ContractViolation")
        .await;
    world
        .condition("train", Type::Ready, "False", "WorkspaceNotReady")
        .await;
    no_token_was_sent(&world).await;
    let workspace = world.workspaces().get("default").await.unwrap();
    let status = workspace.status.unwrap();
    let error = status.last_error.unwrap();
    assert_eq!(error.http_status, Some(404));
    assert!(error.request_id.is_some() && status.request_id == error.request_id);
    // The base URL is immutable: another Workspace takes the place of this one.
    let params = kube::api::DeleteParams::default();
    let deleted = world.workspaces().delete("default", &params).await;
    deleted.unwrap();
    world
        .condition("train", Type::Reconciling, "True", "WorkspaceNotFound")
        .await;
    world.create_workspace("default", json!({})).await;
    world.heals("train").await;
}

/// Proves: P-workspace-holds
#[tokio::test]
async fn an_unknown_workspace_is_named_and_its_creation_is_enough() {
    let world = World::new().await;
    let spec = json!({"workspaceRef": {"kind": "Workspace", "name": "absent"}});
    world.create_run("train", spec).await;
    let run = world
        .condition("train", Type::Reconciling, "True", "WorkspaceNotFound")
        .await;
    let told = condition_of(&run, Type::Ready).unwrap().message;
    says(&told, &["Workspace absent", "doesn't exist; create it"]);
    assert_eq!(
        condition_of(&run, Type::Accepted).unwrap().reason,
        "WorkspaceNotFound"
    );
    assert_eq!(world.service.requests("createRun").await.len(), 0);
    world.create_workspace("absent", json!({})).await;
    world.heals("train").await;
}

/// Proves: P-rotation, P-many-workspaces
#[tokio::test]
async fn an_invalid_ca_bundle_is_rejected_until_it_is_corrected() {
    let world = bare().await;
    world.token(TOKEN).await;
    let spec = json!({"caSecretRef": {"name": "ca"}});
    world.create_workspace("default", spec).await;
    let words = ["Secret ca doesn't exist", "create it with the key ca.crt"];
    world
        .held_by_workspace("SecretNotFound", false, &words)
        .await;
    world
        .secret("ca", json!({"ca.crt": "no certificate"}))
        .await;
    let words = [
        "No client can be made",
        "Correct the Secret that spec.caSecretRef names",
    ];
    world.held_by_workspace("CaInvalid", true, &words).await;
    no_token_was_sent(&world).await;
    let ca = include_str!("../client/tls/ca.pem");
    world.secret("ca", json!({"ca.crt": ca})).await;
    world.heals("train").await;
    // No check of a Ready Workspace is due for minutes: the watch delivers the change.
    world
        .secret("ca", json!({"ca.crt": "no certificate"}))
        .await;
    world
        .workspace_condition("default", Type::Ready, "False", "CaInvalid")
        .await;
}

/// Proves: P-workspace-holds
#[tokio::test]
async fn a_service_outage_is_reported_and_ends_with_its_restart() {
    let mut world = World::with(Setup {
        bare: true,
        ..Setup::default()
    })
    .await;
    world.service.kill();
    world.token(TOKEN).await;
    world.create_workspace("default", json!({})).await;
    world.create_run("train", json!({})).await;
    let words = [
        "GET /version",
        "The service gave no answer",
        "The call is retried automatically",
    ];
    let told = world.workspace_condition("default", Type::Ready, "False", "ServiceUnavailable");
    says(&told.await, &words);
    world
        .workspace_condition("default", Type::Reconciling, "True", "ServiceUnavailable")
        .await;
    let run = world
        .condition("train", Type::Reconciling, "True", "WorkspaceNotReady")
        .await;
    says(&condition_of(&run, Type::Ready).unwrap().message, &words);
    let workspace = world.workspaces().get("default").await.unwrap();
    let error = workspace.status.unwrap().last_error.unwrap();
    assert_eq!((error.code.as_str(), error.http_status), ("no_code", None));
    assert!(error.retryable && error.request_id.is_none());
    world.service.start_again().await;
    world.heals("train").await;
}

#[tokio::test]
async fn a_run_created_during_an_outage_is_posted_once_after_it() {
    let mut world = World::new().await;
    world.workspace_ready("default", "True", "Verified").await;
    world.service.kill();
    let created = world.create_run("train", json!({})).await;
    world
        .run_until("train", "tells of the outage", |run| {
            let ready = condition_of(run, Type::Ready);
            ready.is_some_and(|c| {
                c.reason == "WorkspaceNotReady" && c.message.contains("gave no answer")
            })
        })
        .await;
    world
        .workspace_ready("default", "False", "ServiceUnavailable")
        .await;
    world.service.start_again().await;
    world.heals("train").await;
    assert_eq!(world.posts_of(&created).await, 1);
}

/// Proves: R10a
#[tokio::test]
async fn a_proxys_error_page_is_reported_with_its_request_id() {
    let world = World::with(Setup {
        bare: true,
        ..Setup::default()
    })
    .await;
    let page = json!({"type": "answer", "status": 502, "body": "<html>Bad Gateway</html>"});
    let everything = json!({});
    world.service.lasting_fault(everything, page).await;
    world.token(TOKEN).await;
    world.create_workspace("default", json!({})).await;
    world.create_run("train", json!({})).await;
    let words = [
        "502 without a problem body",
        "Request id",
        "retried automatically",
    ];
    world
        .held_by_workspace("ServiceUnavailable", false, &words)
        .await;
    let workspace = world.workspaces().get("default").await.unwrap();
    let status = workspace.status.unwrap();
    let error = status.last_error.unwrap();
    assert_eq!(error.http_status, Some(502));
    assert!(error.request_id.is_some() && status.request_id == error.request_id);
    assert!(
        !serde_json::to_string(&status.conditions)
            .unwrap()
            .contains("html")
    );
    world.service.delete("faults").await;
    world.heals("train").await;
}

/// Proves: F-refused-bytes
#[tokio::test]
async fn a_run_that_the_service_refuses_ends_with_the_reason() {
    let world = World::new().await;
    let created = world
        .simulate("train", json!({"outcom": "succeeded"}))
        .await;
    let run = world
        .condition("train", Type::Stalled, "True", "CreateRefused")
        .await;
    let status = run.status.as_ref().unwrap();
    assert_eq!(status.phase, Some(Phase::Failed));
    assert_eq!(condition_of(&run, Type::Ready).unwrap().status, "False");
    assert_eq!(condition_of(&run, Type::Accepted).unwrap().status, "False");
    assert_eq!(condition_of(&run, Type::Reconciling), None);
    let error = status.last_error.as_ref().unwrap();
    assert_eq!(
        (error.code.as_str(), error.http_status),
        ("validation_failed", Some(422))
    );
    assert!(!error.retryable && error.next_attempt.is_none());
    let id = error.request_id.clone().unwrap();
    assert_eq!(status.request_id.as_ref(), Some(&id));
    let told = condition_of(&run, Type::Stalled).unwrap().message;
    says(
        &told,
        &[
            "422 validation_failed",
            &format!("Request id {id}"),
            "Correct the spec in a new Run",
        ],
    );
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(world.posts_of(&created).await, 1);
    })
    .await;

    let retry = json!({"metadata": {"annotations": {names::RETRY_ANNOTATION: "once more"}}});
    world.patch_run("train", retry).await;
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(world.posts_of(&created).await, 1);
    })
    .await;

    world.create_run("corrected", json!({})).await;
    world.heals("corrected").await;
    let run = world.run("train").await;
    assert_eq!(
        condition_of(&run, Type::Stalled).unwrap().reason,
        "CreateRefused"
    );
    world.delete_run("train").await;
    world.gone("train").await;
}

/// Proves: F-final
#[tokio::test]
async fn a_retry_annotation_of_any_length_resubmits_a_refused_run() {
    let world = World::new().await;
    let refusal = json!({"type": "answer", "status": 403, "code": "quota_unknown"});
    world
        .service
        .fault(json!({"operation": "createRun"}), refusal)
        .await;
    let created = world.create_run("train", json!({})).await;
    world
        .condition("train", Type::Stalled, "True", "Forbidden")
        .await;
    let long = "again ".repeat(200);
    let retry = json!({"metadata": {"annotations": {names::RETRY_ANNOTATION: long}}});
    world.patch_run("train", retry).await;
    world.heals("train").await;
    assert_eq!(world.posts_of(&created).await, 2);
}

#[tokio::test]
async fn an_unknown_token_is_not_resent_while_another_is_awaited() {
    let world = bare().await;
    world.token("canary-of-nobody").await;
    world.create_workspace("default", json!({})).await;
    let words = [
        "GET /workspaces/current",
        "401 unauthenticated",
        "Request id",
        "Put a valid token into the Secret",
    ];
    world.held_by_workspace("Unauthorized", false, &words).await;
    world
        .workspace_condition("default", Type::VersionVerified, "True", "VersionAccepted")
        .await;
    world
        .workspace_condition("default", Type::Authenticated, "False", "Unauthorized")
        .await;
    holds_for_a_while(A_WHILE, async || {
        assert!(
            world.unauthorized().await <= 5,
            "the token is sent in circles"
        );
    })
    .await;
    world.token(TOKEN).await;
    world.heals("train").await;
}

/// Proves: R4, P-workspace-check
#[tokio::test]
async fn a_foreign_workspace_id_is_refused_until_the_service_agrees() {
    let world = bare().await;
    world.token(TOKEN).await;
    let spec = json!({"workspaceId": "ws-other"});
    world.create_workspace("default", spec).await;
    let words = ["403", "Request id", "check spec.workspaceId and the token"];
    world
        .held_by_workspace("WorkspaceMismatch", true, &words)
        .await;
    let identity = json!({"id": "ws-other"});
    world.service.put("workspaces/ws-demo", identity).await;
    world.heals("train").await;
    let posts = world.service.requests("createRun").await;
    assert_eq!(posts[0]["headers"]["x-service-workspace-id"], "ws-other");
    let run = world.run("train").await;
    let pinned = run.status.unwrap().workspace.unwrap().identity;
    assert_eq!(pinned.as_deref(), Some("ws-other"));
    eventually("the Workspace shows whom it acts for", async || {
        let workspace = world.workspaces().get("default").await.unwrap();
        match workspace.status.unwrap().identity.as_deref() {
            Some("ws-other") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
