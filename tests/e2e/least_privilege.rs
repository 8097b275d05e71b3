//! The chart's roles, as `deploy/` has them: all that the operator needs, and nothing that it doesn't. What
//! it asked for is read from the API server's audit log.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use run_operator::api::{ClusterWorkspace, ConditionType, Phase, conditions::find};
use test_support::{files::text, root, streams_a_list};

use crate::support::{
    Audit, DEPLOYED, ELECTED, Plane, Rights, SECRET, Setup, Ticks, World, eventually, gone,
    own_control_plane, owner_checking_control_plane,
};

/// What the component gives beside the manifest, as a patch of its role.
const SCHEDULES: &str = "deploy/kustomize/components/schedules/rules.yaml";

/// API group, resource with its subresource, verb.
type Right = (String, String, String);

fn granted(rule: &PolicyRule) -> Vec<Right> {
    let mut rights = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            let right = |verb: &String| (group.clone(), resource.clone(), verb.clone());
            rights.extend(rule.verbs.iter().map(right));
        }
    }
    rights
}

/// The permissions that a request needed; none where it was not about a resource. A watch that begins with a list is
/// a list and a watch where the API server has no streamed lists.
fn asked_for(request: &Value) -> Vec<Right> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &request["objectRef"];
    let mut resource = text(&object["resource"]);
    if resource.is_empty() {
        return Vec::new();
    }
    if let Some(part) = object["subresource"].as_str() {
        resource = format!("{resource}/{part}");
    }
    let mut verbs = vec![text(&request["verb"])];
    if streams_a_list(&text(&request["requestURI"])) {
        verbs.push("list".to_owned());
    }
    let group = text(&object["apiGroup"]);
    let right = |verb| (group.clone(), resource.clone(), verb);
    verbs.into_iter().map(right).collect()
}

fn is(request: &Value, statuses: std::ops::Range<u64>) -> bool {
    let status = request["responseStatus"]["code"].as_u64();
    status.is_some_and(|status| statuses.contains(&status))
}

async fn create(world: &World, name: &str, mut spec: Value, simulate: Value) {
    spec["workload"] = json!({"image": "a", "simulate": simulate});
    world.create_run(name, spec).await;
}

/// Both kinds of Workspace, and all that there is with one.
async fn a_whole_life(world: &World) {
    let selector = json!({"namespaceSelector": {}});
    world
        .apply("", "ClusterWorkspace", "shared", selector)
        .await;
    let reference = json!({"workspaceRef": {"kind": "ClusterWorkspace", "name": "shared"}});
    create(world, "tenant", reference, json!({"outcome": "never"})).await;
    world.state("tenant", "running").await;
    // One of the Workspace, one of the ClusterWorkspace: the Secret is in the one namespace.
    a_life_with_one_workspace(world, 2).await;
    world.delete_run("tenant").await;
    world.gone("tenant").await;
    let clusters: Api<ClusterWorkspace> = Api::all(world.client.clone());
    let params = DeleteParams::default();
    clusters.delete("shared", &params).await.unwrap();
    gone(&clusters, "shared").await;
}

/// Runs that end, expire, are cancelled and orphaned, and a rotation, which that many Workspaces see.
async fn a_life_with_one_workspace(world: &World, workspaces: usize) {
    for (name, policy) in [("cancelled", "Cancel"), ("orphan", "Orphan")] {
        let policy = json!({"deletionPolicy": policy});
        create(world, name, policy, json!({"outcome": "never"})).await;
        world.state(name, "running").await;
    }
    world.rotate("canary-of-the-second-month", workspaces).await;
    let quick = json!({"runTimeMs": 1});
    create(world, "train", json!({}), quick.clone()).await;
    world.phase("train", Phase::Succeeded).await;
    let expires = json!({"ttlSecondsAfterFinished": 0});
    create(world, "expires", expires, quick).await;
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

/// The rights that were used. Nothing was refused.
fn used(audit: &Audit) -> BTreeSet<Right> {
    let requests = audit.all_requests();
    let refused = requests.iter().find(|request| is(request, 401..404));
    assert_eq!(refused, None);
    let answered = requests.iter().filter(|request| is(request, 200..300));
    answered.flat_map(asked_for).collect()
}

/// Nothing was refused, and what was used is what these rules give, with those about the Lease.
async fn assert_least(world: &World, rules: Option<Vec<PolicyRule>>) {
    let api: Api<Role> = Api::namespaced(world.client.clone(), DEPLOYED);
    let of_the_lease = api.get(&format!("{DEPLOYED}-leader")).await.unwrap();
    let rules = rules.into_iter().chain(of_the_lease.rules).flatten();
    let granted: BTreeSet<Right> = rules.flat_map(|rule| granted(&rule)).collect();
    let audit = Audit::of(world);
    let used = used(&audit);
    // Neither given and never used, nor used and given elsewhere.
    let differ: Vec<_> = granted.symmetric_difference(&used).collect();
    assert!(
        differ.is_empty(),
        "given {granted:#?}, differing in {differ:#?}"
    );
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
    assert_least(&world, role.rules).await;
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
    assert_least(&world, role.rules).await;
}

/// Gives the operator the rights of the component schedules, and returns those that a request shows.
async fn may_serve_schedules(world: &World) -> BTreeSet<Right> {
    let file = format!("--patch-file={}", root().join(SCHEDULES).display());
    let patch = ["patch", "clusterrole", DEPLOYED, "--type=json", &file];
    world.kubectl(&patch, "").await.unwrap();
    let patch: Vec<Value> = serde_saphyr::from_str(&text(SCHEDULES)).unwrap();
    let rules = patch.iter().map(|op| op["value"].clone());
    let rules = rules.map(|rule| serde_json::from_value::<PolicyRule>(rule).unwrap());
    let rights = rules.flat_map(|rule| granted(&rule));
    rights.filter(|right| !of_an_owner(right)).collect()
}

/// No request has this path: the API server asks for the right itself.
fn of_an_owner((_, resource, _): &Right) -> bool {
    resource == "runschedules/finalizers"
}

/// Waits until the API server has the kinds that an owner may be of, which it looks for from time to time.
async fn owners_are_known(world: &World) {
    let owner = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "RunSchedule", "name": "nightly", "uid": "u",
        "blockOwnerDeletion": true,
    });
    let run = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
        "metadata": {"name": "owned", "ownerReferences": [owner]},
        "spec": {"workload": {"image": "i"}},
    });
    let create = ["create", "--dry-run=server", "-f", "-"];
    eventually("the kind of the owner is known", async || {
        world.kubectl(&create, &run.to_string()).await
    })
    .await;
}

/// Takes the right about owners away, and waits until it is gone.
async fn may_own_nothing(world: &World, rules: Vec<PolicyRule>) {
    let left = rules.into_iter();
    let left = left.filter(|rule| !granted(rule).iter().any(of_an_owner));
    let left = Patch::Merge(json!({"rules": left.collect::<Vec<_>>()}));
    let api: Api<ClusterRole> = Api::all(world.client.clone());
    let params = PatchParams::default();
    api.patch(DEPLOYED, &params, &left).await.unwrap();
    let user = format!("--as=system:serviceaccount:{DEPLOYED}:{DEPLOYED}");
    let finalizers = "--subresource=finalizers";
    let kind = "runschedules.run-operator.dev";
    let can = ["auth", "can-i", "update", kind, finalizers, &user];
    eventually("the right is gone", async || {
        match world.kubectl(&can, "").await {
            Ok(said) => Err(said),
            // It says no by its exit code.
            Err(_) => Ok(()),
        }
    })
    .await;
}

/// The API server checks owners as that of `OpenShift` does.
/// Proves: X-rbac, P-template
#[tokio::test]
async fn schedules_need_every_right_of_their_component_and_no_other() {
    let (mut world, ticks) = Ticks::unattended(Setup {
        plane: Plane::Own(owner_checking_control_plane().await),
        everywhere: true,
        rights: Rights::Deployed,
        ..Setup::default()
    })
    .await;
    let needed = may_serve_schedules(&world).await;
    owners_are_known(&world).await;
    world.start_operator().await;
    let replace = json!({"concurrencyPolicy": "Replace", "failedRunsHistoryLimit": 0});
    let spec = ticks.spec(&json!({"outcome": "never"}), &replace);
    world.scheduled("nightly", spec).await;
    ticks.come(0);
    world.state(&ticks.run("nightly", 0), "running").await;
    ticks.come(1);
    world.state(&ticks.run("nightly", 1), "running").await;
    world.gone(&ticks.run("nightly", 0)).await;
    let api: Api<ClusterRole> = Api::all(world.client.clone());
    let rules = api.get(DEPLOYED).await.unwrap().rules.unwrap();
    let granted: BTreeSet<Right> = rules.iter().flat_map(granted).collect();
    let used = used(&Audit::of(&world));
    let of_schedules: BTreeSet<_> = used.intersection(&needed).cloned().collect();
    assert_eq!(of_schedules, needed);
    let not_granted: Vec<_> = used.difference(&granted).collect();
    assert!(not_granted.is_empty(), "given elsewhere: {not_granted:#?}");
    // The trial of the next version shows that a Run could not have its owner.
    may_own_nothing(&world, rules).await;
    let spec = ticks.spec(&json!({"outcome": "never"}), &json!({}));
    let namespace = &world.namespace;
    world.apply(namespace, "RunSchedule", "nightly", spec).await;
    let refused = world
        .schedule_ready("nightly", "False", "TemplateRefused")
        .await;
    let stalled = find(&refused.conditions, ConditionType::Stalled).unwrap();
    let said = &stalled.message;
    assert!(said.contains("blockOwnerDeletion"), "{said}");
}
