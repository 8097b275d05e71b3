//! Bad input: each case gives its reason, resumes automatically when its cause is removed, and neither loses nor doubles
//! a run.

use rstest::rstest;
use serde_json::{Value, json};

use run_operator::api::ConditionType as Type;

use crate::support::{Setup, TOKEN, World};

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
    }
}

/// Which addresses are on it is proved beside `BaseUrl`.
/// Proves: X-allow-list
#[tokio::test]
async fn a_workspace_reaches_only_addresses_on_the_allow_list() {
    let world = bare().await;
    world.token(TOKEN).await;
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let url = format!("http://{}/api/v1", other.local_addr().unwrap());
    let spec = json!({"baseURL": url});
    world.create_workspace("default", spec).await;
    world.held_by_workspace("BaseURLNotAllowed", true).await;
    let came = other.accept();
    assert!(came.is_err(), "somebody connected: {came:?}");
}

/// Proves: R6, X-token
#[rstest]
#[case::that_is_malformed("canary-one\ncanary-two", "TokenMalformed")]
#[case::that_is_a_providers_key("sk-canary-0a1b2c3d", "TokenIsProviderKey")]
#[tokio::test]
async fn a_bad_token_is_never_sent_and_correcting_it_suffices(
    #[case] token: &str,
    #[case] reason: &str,
) {
    let world = bare().await;
    world.token(token).await;
    world.create_workspace("default", json!({})).await;
    world.held_by_workspace(reason, true).await;
    no_token_was_sent(&world).await;
    let log = world.operator_log();
    for part in token.lines() {
        assert!(!log.contains(part), "the log tells {part}");
    }
    world.token(TOKEN).await;
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
    world.kill_operator();
    let allowed = format!("--allowed-base-url={url}");
    world.recipe.args.push(allowed);
    world.start_operator().await;
    world
        .create_workspace("default", json!({"baseURL": url}))
        .await;
    world
        .workspace_condition("default", Type::Stalled, "True", "ContractViolation")
        .await;
    world.not_ready("train", "WorkspaceNotReady").await;
    no_token_was_sent(&world).await;
    let workspace = world.workspaces().get("default").await.unwrap();
    let status = workspace.status.unwrap();
    let error = status.last_error.unwrap();
    assert_eq!(error.http_status, Some(404));
    assert!(error.request_id.is_some() && status.request_id == error.request_id);
    // The base URL is immutable: another Workspace takes the place of this one.
    world.delete_workspace("default").await;
    world.workspace_gone("default").await;
    world.create_workspace("default", json!({})).await;
    world.heals("train").await;
}

/// Proves: P-rotation, P-many-workspaces
#[tokio::test]
async fn an_invalid_ca_bundle_is_rejected_until_it_is_corrected() {
    let world = bare().await;
    world.token(TOKEN).await;
    let spec = json!({"caSecretRef": {"name": "ca"}});
    world.create_workspace("default", spec).await;
    world.held_by_workspace("SecretNotFound", false).await;
    world
        .secret("ca", json!({"ca.crt": "no certificate"}))
        .await;
    world.held_by_workspace("CAInvalid", true).await;
    no_token_was_sent(&world).await;
    let ca = include_str!("../client/tls/ca.pem");
    world.secret("ca", json!({"ca.crt": ca})).await;
    world.heals("train").await;
    // No check of a Ready Workspace is due for minutes: the watch delivers the change.
    world
        .secret("ca", json!({"ca.crt": "no certificate"}))
        .await;
    world
        .workspace_condition("default", Type::Ready, "False", "CAInvalid")
        .await;
}

/// Proves: R4, P-workspace-check
#[tokio::test]
async fn a_foreign_workspace_id_is_refused_until_the_service_agrees() {
    let world = bare().await;
    world.token(TOKEN).await;
    let spec = json!({"workspaceID": "ws-other"});
    world.create_workspace("default", spec).await;
    world.held_by_workspace("WorkspaceMismatch", true).await;
    let identity = json!({"id": "ws-other"});
    world.service.put("workspaces/ws-demo", identity).await;
    world.heals("train").await;
    let posts = world.service.requests("createRun").await;
    assert_eq!(posts[0]["headers"]["x-service-workspace-id"], "ws-other");
    let run = world.run("train").await;
    let pinned = run.status.unwrap().workspace.unwrap().identity;
    assert_eq!(pinned.as_deref(), Some("ws-other"));
}
