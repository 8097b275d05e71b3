//! Secrets under a restricted RBAC: read by name, watched by name, or neither. The operator runs as a service
//! account; its requests are read from the API server's audit log.

use serde_json::{Value, json};

use run_operator::api::ConditionType as Type;

use crate::support::{
    Audit, Rights, SECRET, Setup, TOKEN, World, eventually, holds_for_a_while, says,
};

const SECOND: &str = "canary-of-the-second-month-91c2";
const THIRD: &str = "canary-of-the-third-month-02fd";
/// Number of checks in about three seconds.
const A_WHILE: u32 = 120;

/// A world whose operator may use these verbs on the Secret of the Workspace `default`, and on no other.
async fn with_verbs(verbs: &[&str]) -> (World, Audit) {
    let rule = json!([{
        "apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET], "verbs": verbs,
    }]);
    let world = World::with(Setup {
        rights: Rights::Secrets(rule),
        ..Setup::default()
    })
    .await;
    let audit = Audit::of(&world);
    (world, audit)
}

/// Puts another good token into the Secret; the one before stays good. The Workspace is checked with it, and then the
/// run's stream is opened with it.
async fn rotate(world: &World) {
    world.rotate(SECOND, 1).await;
    eventually("the stream is opened with the new token", async || {
        let token = |requests: &[Value]| requests.last().map(|r| r["token"].clone());
        let stream = token(&world.service.requests("streamEvents").await);
        let check = token(&world.service.requests("getWorkspace").await);
        if stream.is_some() && stream == check {
            Ok(())
        } else {
            Err(format!("{stream:?}, {check:?}"))
        }
    })
    .await;
    assert_eq!(world.unauthorized().await, 0);
}

/// Proves: P-rotation
#[tokio::test]
async fn without_watch_permission_a_rotation_is_noticed_by_rereading() {
    let (world, audit) = with_verbs(&["get"]).await;
    world.running("train").await;
    let checks = world.service.requests("getWorkspace").await.len();
    // No call fails, so only the read every 30 s can find it.
    rotate(&world).await;
    world.workspace_ready("default", "True", "Verified").await;
    let after = world.service.requests("getWorkspace").await.len();
    assert_eq!(after, checks + 1, "one change, one probe");

    // A 401 finds it at once.
    world.service.post("tokens", json!({"token": THIRD})).await;
    world.token(THIRD).await;
    world.service.delete(&format!("tokens/{SECOND}")).await;
    world.set_state("train", "processing").await;
    world.state("train", "processing").await;
    let refused = world.unauthorized().await;
    assert!(refused <= 3, "{refused} calls were refused");

    // A watch begins with a list.
    let denied = audit.count("list", 403);
    assert!((1..=2).contains(&denied), "{denied} forbidden lists");
    assert_eq!(audit.count("get", 403) + audit.count("watch", 403), 0);
    let log = world.operator_log();
    let forbids = |line: &&str| line.contains("RBAC forbids the watch of a Secret");
    let warnings: Vec<_> = log.lines().filter(forbids).collect();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    let words = [SECRET, "verbs list and watch", "resourceName"];
    says(warnings[0], &words);
}

/// Proves: P-rotation, X-secrets-by-name
#[tokio::test]
async fn a_watch_by_name_sees_a_rotation_and_ends_with_its_workspace() {
    let (world, audit) = with_verbs(&["get", "list", "watch"]).await;
    world.running("train").await;
    rotate(&world).await;
    world.service.delete(&format!("tokens/{TOKEN}")).await;
    world.set_state("train", "succeeded").await;
    world.heals("train").await;
    assert_eq!(world.unauthorized().await, 0);
    // Each check reads the Secret once; nothing else does, so the change came by the watch.
    eventually("one read a check", async || {
        let checks = world.service.requests("getWorkspace").await.len();
        let reads = audit.count("get", 200);
        if reads == checks {
            Ok(())
        } else {
            Err(format!("{reads} reads, {checks} checks"))
        }
    })
    .await;
    assert_eq!(audit.count("list", 200), 1);
    assert_eq!(audit.count("watch", 200), 1);
    for verb in ["get", "list", "watch"] {
        assert_eq!(audit.count(verb, 403), 0, "{verb}");
    }

    assert_eq!(audit.ended_watches(), 0);
    world.delete_run("train").await;
    world.gone("train").await;
    world.delete_workspace("default").await;
    eventually("the watch ends", async || {
        let ended = audit.ended_watches();
        (ended == 1).then_some(()).ok_or(ended)
    })
    .await;
}

/// Proves: X-references, X-secrets-by-name
#[tokio::test]
async fn a_forbidden_secret_stalls_its_workspace_with_bounded_reads() {
    let (world, audit) = with_verbs(&["get", "list", "watch"]).await;
    world.workspace_ready("default", "True", "Verified").await;
    world.secret("elsewhere", json!({"token": TOKEN})).await;
    let reference = json!({"tokenSecretRef": {"name": "elsewhere"}});
    world.create_workspace("other", reference).await;
    world
        .workspace_condition("other", Type::Stalled, "True", "SecretForbidden")
        .await;
    let workspace_ref = json!({"workspaceRef": {"kind": "Workspace", "name": "other"}});
    world.create_run("train", workspace_ref).await;
    world.not_ready("train", "WorkspaceNotReady").await;
    holds_for_a_while(A_WHILE, async || {
        let forbidden = audit.count("get", 403) + audit.count("list", 403);
        // A list, and reads after 0.5, 1, 2 and 4 seconds at the soonest.
        assert!(forbidden <= 8, "{forbidden} forbidden requests");
    })
    .await;
    // What can't be read is not watched either.
    assert_eq!(audit.count("list", 403), 0);

    let allow = json!([{"op": "add", "path": "/rules/-", "value": {
        "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["elsewhere"], "verbs": ["get"],
    }}]);
    let patch = format!("--patch={allow}");
    let allow = ["patch", "role", "operator", "--type=json", &patch];
    world.kubectl(&allow, "").await.unwrap();
    world.workspace_ready("other", "True", "Verified").await;
    world.heals("train").await;
}
