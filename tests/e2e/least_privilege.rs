//! The chart's roles, as `deploy/` has them: all that the operator needs, and nothing that it doesn't. What
//! it asked for is read from the API server's audit log.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use run_operator::api::{ClusterWorkspace, Phase};
use test_support::{files::text, streams_a_list};

use crate::support::{
    Audit, DEPLOYED, ELECTED, Plane, Rights, SECRET, Setup, World, eventually, gone,
    own_control_plane,
};

const SECOND: &str = "canary-of-the-second-month-5d07";

/// API group, resource with its subresource, verb.
type Right = (String, String, String);

fn granted(rule: &PolicyRule) -> Vec<Right> {
    let mut rights = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            for verb in &rule.verbs {
                rights.push((group.clone(), resource.clone(), verb.clone()));
            }
        }
    }
    rights
}

/// The permissions that a request needed; none where it was not about a resource. A watch that begins with a list is
/// a list and a watch where the API server has no streamed lists.
fn asked_for(request: &Value) -> Vec<Right> {
    let uri = request["requestURI"].as_str().unwrap_or_default();
    let mut rights = Vec::from_iter(right(request));
    if streams_a_list(uri) {
        let list = |(group, resource, _)| (group, resource, "list".to_owned());
        rights.extend(right(request).map(list));
    }
    rights
}

fn right(request: &Value) -> Option<Right> {
    let object = &request["objectRef"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut resource = object["resource"].as_str()?.to_owned();
    if let Some(part) = object["subresource"].as_str() {
        resource = format!("{resource}/{part}");
    }
    Some((text(&object["apiGroup"]), resource, text(&request["verb"])))
}

fn is(request: &Value, statuses: std::ops::Range<u64>) -> bool {
    let status = request["responseStatus"]["code"].as_u64();
    status.is_some_and(|status| statuses.contains(&status))
}

/// Both kinds of Workspace, and all that there is with one.
async fn a_whole_life(world: &World) {
    let selector = json!({"namespaceSelector": {}});
    world
        .apply("", "ClusterWorkspace", "shared", selector)
        .await;
    let clusters: Api<ClusterWorkspace> = Api::all(world.client.clone());
    let reference = json!({"kind": "ClusterWorkspace", "name": "shared"});
    let spec =
        json!({"workspaceRef": reference, "workload": workload(&json!({"outcome": "never"}))});
    world.create_run("tenant", spec).await;
    world.state("tenant", "running").await;
    // One of the Workspace, one of the ClusterWorkspace: the Secret is in the one namespace.
    a_life_with_one_workspace(world, 2).await;
    world.delete_run("tenant").await;
    world.gone("tenant").await;
    let params = DeleteParams::default();
    clusters.delete("shared", &params).await.unwrap();
    gone(&clusters, "shared").await;
}

fn workload(simulate: &Value) -> Value {
    json!({"image": "a", "simulate": simulate})
}

/// Another token, which that many Workspaces see.
pub(crate) async fn rotates(world: &World, workspaces: usize) {
    let checks = world.service.requests("getWorkspace").await.len();
    world.service.post("tokens", json!({"token": SECOND})).await;
    world.token(SECOND).await;
    world.asked("getWorkspace", checks + workspaces).await;
}

/// Runs that end, expire, are cancelled and orphaned, and a rotation, which that many Workspaces see.
async fn a_life_with_one_workspace(world: &World, workspaces: usize) {
    for (name, policy) in [("cancelled", "Cancel"), ("orphan", "Orphan")] {
        let never = workload(&json!({"outcome": "never"}));
        let spec = json!({"deletionPolicy": policy, "workload": never});
        world.create_run(name, spec).await;
        world.state(name, "running").await;
    }
    rotates(world, workspaces).await;
    world.simulate("train", json!({"runTimeMs": 1})).await;
    world.phase("train", Phase::Succeeded).await;
    let expires =
        json!({"ttlSecondsAfterFinished": 0, "workload": workload(&json!({"runTimeMs": 1}))});
    world.create_run("expires", expires).await;
    world.gone("expires").await;
    for name in ["cancelled", "orphan", "train"] {
        world.delete_run(name).await;
        world.gone(name).await;
    }
    world.event("orphan", "Orphaned").await;
    world.delete_workspace("default").await;
    world.workspace_gone("default").await;
}

/// Lets only the operator write statuses and intents from now on.
async fn fenced_in(world: &World) {
    let policy = text("deploy/kustomize/components/status-policy/policy.yaml");
    world.control_plane.apply_yaml(&policy).await.unwrap();
    world.create_run("probe", json!({"suspend": true})).await;
    let forged = Patch::Merge(json!({"status": {"state": "forged"}}));
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    eventually("the policy is in force", async || {
        let forged = world.runs().patch_status("probe", &params, &forged).await;
        let told = forged.map_or_else(|error| error.to_string(), |run| format!("{run:?}"));
        if told.contains("only the operator writes the status") {
            Ok(())
        } else {
            Err(told)
        }
    })
    .await;
    world.delete_run("probe").await;
    world.gone("probe").await;
}

/// The rules about the Lease.
async fn about_the_lease(world: &World) -> Vec<PolicyRule> {
    let api: Api<Role> = Api::namespaced(world.client.clone(), DEPLOYED);
    let role = api.get(&format!("{DEPLOYED}-leader")).await.unwrap();
    role.rules.unwrap()
}

/// Nothing was refused, and what was used is what these rules give.
fn assert_least(world: &World, rules: &[PolicyRule]) {
    let audit = Audit::of(world);
    let requests = audit.all_requests();
    let refused: Vec<&Value> = requests
        .iter()
        .filter(|request| is(request, 401..404))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let answered = requests.iter().filter(|request| is(request, 200..300));
    let used: BTreeSet<Right> = answered.flat_map(asked_for).collect();
    let granted: BTreeSet<Right> = rules.iter().flat_map(granted).collect();
    let unused: Vec<_> = granted.difference(&used).collect();
    assert!(unused.is_empty(), "given and never used: {unused:#?}");
    let further: Vec<_> = used.difference(&granted).collect();
    assert!(further.is_empty(), "used and given elsewhere: {further:#?}");
    let of_other_secrets = audit.requests().into_iter().filter(|request| {
        let named = request["objectRef"]["name"].as_str() == Some(SECRET);
        let uri = request["requestURI"].as_str().unwrap_or_default();
        !named && !uri.contains(&format!("metadata.name%3D{SECRET}"))
    });
    assert_eq!(of_other_secrets.count(), 0);
}

/// Proves: X-rbac
#[tokio::test]
async fn a_whole_life_needs_every_right_of_the_manifest_and_no_other() {
    let world = World::with(Setup {
        everywhere: true,
        operator: ELECTED.to_vec(),
        rights: Rights::Deployed,
        ..Setup::default()
    })
    .await;
    world.workspace_ready("default", "True", "Verified").await;
    let _waits = world.another_operator().await;
    a_whole_life(&world).await;
    let api: Api<ClusterRole> = Api::all(world.client.clone());
    let role = api.get(DEPLOYED).await.unwrap();
    let rules = [role.rules.unwrap(), about_the_lease(&world).await].concat();
    assert_least(&world, &rules);
}

/// Proves: X-rbac, I-status-policy
#[tokio::test]
async fn a_namespaced_operator_needs_exactly_its_roles_permissions() {
    // Others give the same account the rights for every namespace.
    let world = World::with(Setup {
        plane: Plane::Own(own_control_plane().await),
        operator: ELECTED.to_vec(),
        rights: Rights::DeployedHere,
        ..Setup::default()
    })
    .await;
    world.workspace_ready("default", "True", "Verified").await;
    fenced_in(&world).await;
    let _waits = world.another_operator().await;
    a_life_with_one_workspace(&world, 1).await;
    let api: Api<Role> = Api::namespaced(world.client.clone(), &world.namespace);
    let role = api.get(DEPLOYED).await.unwrap();
    let rules = [role.rules.unwrap(), about_the_lease(&world).await].concat();
    assert_least(&world, &rules);
}
