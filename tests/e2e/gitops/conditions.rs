//! Every row of the conditions table, made by real Runs, and read by kstatus, Argo CD's health script and Flux's
//! expressions.

use serde_json::{Value, json};

use run_operator::api::{Phase, names};

use super::condition_cases::{CLUSTER_WORKSPACES, RUNS, Situation, WORKSPACES};
use super::tools::{argocd_cm, asked, file, ready};
use crate::support::{Setup, World, eventually};

const CLUSTER: &str = "ClusterWorkspace";

/// The status and the message of Argo CD's health.
fn health(situation: &Situation, object: &Value) -> Value {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let told = conditions.find(|condition| condition["type"] == situation.told);
    let told = told.map_or(situation.told, |told| told["message"].as_str().unwrap());
    let begins = match situation.kstatus {
        "Terminating" => "Being deleted: ",
        _ => "",
    };
    json!({"status": situation.argo, "message": format!("{begins}{told}")})
}

/// The patch of one of Argo CD's actions, or the object that it creates.
fn made_by(action: &str, object: &Value) -> Value {
    match action {
        "cancel" => json!({"spec": {"cancel": true}}),
        "suspend" => json!({"spec": {"suspend": true}}),
        "resume" => json!({"spec": {"suspend": false}}),
        "retry" => json!({"metadata": {"annotations": {names::RETRY_ANNOTATION: "now"}}}),
        "rerun" => {
            let mut spec = object["spec"].clone();
            let own = ["suspend", "cancel", "idempotencyKey"];
            let fields = spec.as_object_mut().unwrap();
            fields.retain(|field, _| !own.contains(&field.as_str()));
            let metadata = json!({"name": "now", "namespace": object["metadata"]["namespace"]});
            json!({"apiVersion": object["apiVersion"], "kind": "Run", "metadata": metadata, "spec": spec})
        }
        _ => panic!("no action {action}"),
    }
}

/// Reads every situation with every tool, and panics with every deviation from the table.
async fn read_by_all(world: &World, kind: &str, situations: &[Situation]) {
    let mut objects = Vec::new();
    for situation in situations {
        objects.push(world.raw(kind, situation.name).await);
    }
    let input = serde_json::to_string(&objects).unwrap();
    let cm = argocd_cm();
    let expressions = file("deploy/flux/runs.yaml").display().to_string();
    let kstatus: Vec<Value> = asked("flux", &["kstatus"], &input).await;
    let argo: Vec<Value> = asked("argocd", &["health", "--cm", &cm], &input).await;
    let flux: Vec<Value> = asked("flux", &["health", &expressions], &input).await;
    let mut differences = Vec::new();
    for (i, (situation, object)) in situations.iter().zip(&objects).enumerate() {
        let mut compare = |what: &str, found: &Value, wanted: Value| {
            if *found != wanted {
                let name = situation.name;
                differences.push(format!("{kind} {name}, {what}: {found}, not {wanted}"));
            }
        };
        compare("kstatus", &kstatus[i]["Status"], situation.kstatus.into());
        compare("Argo CD", &argo[i], health(situation, object));
        compare("expressions", &flux[i], situation.flux.into());
        let text = object.to_string();
        let offered = asked("argocd", &["actions", "--cm", &cm], &text).await;
        compare("actions", &offered, json!(situation.actions));
        for action in situation.actions {
            let mut made: Value = asked("argocd", &["act", "--cm", &cm, action], &text).await;
            // The time of a retry.
            let time = made.pointer_mut("/metadata/annotations/run-operator.dev~1retry");
            if let Some(time) = time.filter(|time| time.is_string()) {
                *time = "now".into();
            }
            // The minute in the name of a new object.
            if let Some(name) = made.pointer_mut("/metadata/name") {
                *name = "now".into();
            }
            compare(action, &made, made_by(action, object));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Proves: P-argocd
#[tokio::test]
async fn argo_cd_and_flux_read_every_row_of_the_conditions_of_runs() {
    let mut world = World::new().await;
    refused_and_retrying(&world).await;
    two_run_ids(&world).await;
    let endless = json!({"image": "i", "simulate": {"outcome": "never"}});
    let with = |field: &str, value: Value| json!({field: value, "workload": endless});
    for (name, spec) in [
        ("waiting", json!({"workspaceRef": {"name": "missing"}})),
        ("suspended", json!({"suspend": true})),
        ("accepted", with("readyWhen", json!("Accepted"))),
        ("deadline-exceeded", with("activeDeadlineSeconds", json!(1))),
        ("succeeded", json!({})),
    ] {
        world.create_run(name, spec).await;
    }
    world.simulate("failed", json!({"outcome": "failed"})).await;
    let stuck = json!({"outcome": "never", "cancel": "stuck"});
    for name in ["cancelling", "terminating"] {
        world.simulate(name, stuck.clone()).await;
        world.state(name, "running").await;
    }
    let mut run_id = String::new();
    for name in ["active", "stale", "cancelled", "cancelled-elsewhere"] {
        world.simulate(name, json!({"outcome": "never"})).await;
        let run = world.state(name, "running").await;
        run_id = run.status.unwrap().run_id.unwrap();
    }
    world.state("accepted", "running").await;
    for name in ["cancelling", "cancelled"] {
        let cancel = json!({"spec": {"cancel": true}});
        world.patch_run(name, cancel).await;
    }
    world.delete_run("terminating").await;
    world.set_state(&run_id, "cancelled").await;
    world.not_ready("waiting", "WorkspaceNotFound").await;
    world.not_ready("suspended", "Suspended").await;
    world.stalled("two-run-ids", "RunIDConflict").await;
    for name in ["cancelling", "terminating"] {
        world.state(name, "cancelling").await;
    }
    for (name, phase) in [
        ("create-refused", Phase::Failed),
        ("succeeded", Phase::Succeeded),
        ("failed", Phase::Failed),
        ("deadline-exceeded", Phase::Failed),
        ("cancelled", Phase::Cancelled),
        ("cancelled-elsewhere", Phase::Cancelled),
    ] {
        world.phase(name, phase).await;
        world.released(name).await;
    }
    world.kill_operator();
    world.create_run("fresh", json!({})).await;
    let unseen = json!({"spec": {"ttlSecondsAfterFinished": 100_000}});
    world.patch_run("stale", unseen).await;
    read_by_all(&world, "Run", RUNS).await;
    world.service.delete("faults").await;
    world.start_operator().await;
}

/// A Run that is refused for good, one that is refused until someone acts, and one whose create is repeated;
/// distinguished by their images.
async fn refused_and_retrying(world: &World) {
    for (name, status, title) in [
        ("create-refused", 422, "No such image"),
        ("refused", 403, "Not allowed"),
        ("retrying", 503, "Maintenance"),
    ] {
        let image = format!("ghcr.io/acme/{name}:1");
        let fits = json!({"operation": "createRun", "image": image});
        let answer = json!({"type": "answer", "status": status, "code": name, "title": title});
        world.service.lasting_fault(fits, answer).await;
        let spec = json!({"workload": {"image": image}});
        world.create_run(name, spec).await;
    }
    world.stalled("refused", "Forbidden").await;
    world.not_ready("retrying", "Retrying").await;
}

/// A Run that will be Stalled although it has a run: another runID is in its status before its create is answered.
async fn two_run_ids(world: &World) {
    let image = "ghcr.io/acme/two-run-ids:1";
    let create = json!({"operation": "createRun", "image": image});
    let late = json!({"type": "delay", "forMs": 10_000, "execute": true});
    world.service.fault(create, late).await;
    let workload = json!({"image": image, "simulate": {"outcome": "never"}});
    let spec = json!({"workload": workload});
    let run = world.create_run("two-run-ids", spec).await;
    eventually("its create is sent", async || {
        let posts = world.posts_of(&run).await;
        if posts > 0 { Ok(()) } else { Err(posts) }
    })
    .await;
    let other = json!({"runID": "run_fedcba9876543210"});
    world.patch_status("two-run-ids", other).await;
}

/// Proves: P-argocd, P-conditions
#[tokio::test]
async fn argo_cd_and_flux_read_the_conditions_of_workspaces_of_both_kinds() {
    let mut world = World::with(Setup {
        everywhere: true,
        ..Setup::default()
    })
    .await;
    let malformed = json!({"token": "two\nlines"});
    world.secret("malformed", malformed).await;
    let of = |secret: &str| json!({"tokenSecretRef": {"name": secret}});
    let held = json!({"suspend": true});
    // An empty selector: Lua can't distinguish an empty table from an empty list, and Argo CD has to.
    let shared = json!({"namespaceSelector": {}});
    let all_held = json!({"namespaceSelector": {}, "suspend": true});
    for (kind, name, spec, reason) in [
        ("Workspace", "default", json!({}), "Verified"),
        ("Workspace", "waiting", of("missing"), "SecretNotFound"),
        ("Workspace", "refused", of("malformed"), "TokenMalformed"),
        ("Workspace", "suspended", held, "Verified"),
        ("Workspace", "stale", json!({}), "Verified"),
        ("Workspace", "terminating", json!({}), "Verified"),
        (CLUSTER, "shared", shared, "Verified"),
        (CLUSTER, "waiting", of("missing"), "SecretNotFound"),
        (CLUSTER, "refused", of("malformed"), "TokenMalformed"),
        (CLUSTER, "suspended", all_held, "Verified"),
    ] {
        world.apply(&world.namespace, kind, name, spec).await;
        ready(&world, kind, name, reason).await;
    }
    let workload = json!({"image": "i", "simulate": {"outcome": "never"}});
    let needs = json!({"workspaceRef": {"name": "terminating"}, "workload": workload});
    world.create_run("train", needs).await;
    world.state("train", "running").await;
    world.delete_workspace("terminating").await;
    world
        .workspace_ready("terminating", "False", "WorkspaceDeleting")
        .await;
    world.kill_operator();
    world.create_workspace("fresh", json!({})).await;
    world.apply("", CLUSTER, "fresh", json!({})).await;
    let faster = json!({"rateLimit": {"burst": 50}});
    world
        .apply(&world.namespace, "Workspace", "stale", faster)
        .await;
    read_by_all(&world, "Workspace", WORKSPACES).await;
    read_by_all(&world, CLUSTER, CLUSTER_WORKSPACES).await;
}
