//! Every row of the conditions table, made by real Runs, and read by kstatus, Argo CD's health script and Flux's
//! expressions.

use kube::api::{Patch, PatchParams};
use serde::Deserialize;
use serde_json::{Value, json};

use run_operator::api::Phase;

use super::condition_cases::{CLUSTER_WORKSPACES, RUNS, Situation, WORKSPACES};
use super::testdata::{compare_or_record, message};
use super::tools::{argocd_cm, asked, file, ready};
use crate::support::{Plane, Setup, World, eventually};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Kstatus {
    status: String,
}

#[derive(Deserialize, Debug, PartialEq)]
struct Health {
    status: String,
    #[serde(default)]
    message: String,
}

/// Reads every situation with every tool, and panics with every deviation from the table.
async fn read_by_all(world: &World, situations: &[Situation]) {
    let mut seen = Vec::new();
    for situation in situations {
        seen.push((*situation, world.raw(situation.kind, situation.name).await));
    }
    let objects: Vec<&Value> = seen.iter().map(|(_, object)| object).collect();
    let input = serde_json::to_string(&objects).unwrap();
    let cm = argocd_cm();
    let expressions = file("deploy/flux/runs.yaml").display().to_string();
    let kstatus: Vec<Kstatus> = asked("flux", &["kstatus"], &input).await;
    let argo: Vec<Health> = asked("argocd", &["health", "--cm", &cm], &input).await;
    let flux: Vec<String> = asked("flux", &["health", &expressions], &input).await;
    let mut differences = compare_or_record(&seen, &world.namespace);
    for (i, (situation, object)) in seen.iter().enumerate() {
        let text = object.to_string();
        let offered: Vec<String> = asked("argocd", &["actions", "--cm", &cm], &text).await;
        let wanted = Health {
            status: situation.argo.to_owned(),
            message: message(situation, object),
        };
        let (name, kind) = (situation.name, situation.kind);
        if kstatus[i].status != situation.kstatus {
            differences.push(format!("{kind} {name}: kstatus is {}", kstatus[i].status));
        }
        if argo[i] != wanted {
            differences.push(format!(
                "{kind} {name}: Argo CD says {:?}, not {wanted:?}",
                argo[i]
            ));
        }
        if flux[i] != situation.flux {
            differences.push(format!("{kind} {name}: the expressions say {}", flux[i]));
        }
        if offered != situation.actions {
            differences.push(format!("{kind} {name}: Argo CD offers {offered:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Proves: P-argocd, P-flux
#[tokio::test]
async fn argo_cd_and_flux_read_every_row_of_the_conditions_of_runs() {
    let mut world = World::new().await;
    refused_and_retrying(&world).await;
    two_run_ids(&world).await;
    let endless = json!({"image": "i", "simulate": {"outcome": "never"}});
    for (name, spec) in [
        ("waiting", json!({"workspaceRef": {"name": "missing"}})),
        ("suspended", json!({"suspend": true})),
        (
            "accepted",
            json!({"readyWhen": "Accepted", "workload": endless}),
        ),
        (
            "deadline-exceeded",
            json!({"activeDeadlineSeconds": 1, "workload": endless}),
        ),
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
    world.stalled("two-run-ids", "RunIdConflict").await;
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
    read_by_all(&world, RUNS).await;
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
        world
            .create_run(name, json!({"workload": {"image": image}}))
            .await;
    }
    world.stalled("refused", "Forbidden").await;
    world.not_ready("retrying", "Retrying").await;
}

/// A Run that will be Stalled although it has a run: another runId is in its status before its create is answered.
async fn two_run_ids(world: &World) {
    let image = "ghcr.io/acme/two-run-ids:1";
    let create = json!({"operation": "createRun", "image": image});
    let late = json!({"type": "delay", "forMs": 10_000, "execute": true});
    world.service.fault(create, late).await;
    let workload = json!({"image": image, "simulate": {"outcome": "never"}});
    let run = world
        .create_run("two-run-ids", json!({"workload": workload}))
        .await;
    eventually("its create is sent", async || {
        let posts = world.posts_of(&run).await;
        if posts > 0 { Ok(()) } else { Err(posts) }
    })
    .await;
    let other = Patch::Merge(json!({"status": {"runId": "run_fedcba9876543210"}}));
    world
        .runs()
        .patch_status("two-run-ids", &PatchParams::default(), &other)
        .await
        .unwrap();
}

/// Proves: P-argocd, P-flux, P-reasons
#[tokio::test]
async fn argo_cd_and_flux_read_the_conditions_of_workspaces_of_both_kinds() {
    let mut world = World::with(Setup {
        plane: Plane::Alone,
        everywhere: true,
        ..Setup::default()
    })
    .await;
    world
        .secret("malformed", json!({"token": "two\nlines"}))
        .await;
    let of = |secret: &str| json!({"tokenSecretRef": {"name": secret}});
    world.create_workspace("waiting", of("missing")).await;
    world.create_workspace("refused", of("malformed")).await;
    world
        .create_workspace("suspended", json!({"suspend": true}))
        .await;
    for name in ["stale", "terminating"] {
        world.create_workspace(name, json!({})).await;
    }
    for name in ["default", "suspended", "stale", "terminating"] {
        world.workspace_ready(name, "True", "Verified").await;
    }
    world
        .workspace_ready("waiting", "False", "SecretNotFound")
        .await;
    world
        .workspace_ready("refused", "False", "TokenMalformed")
        .await;
    let workload = json!({"image": "ghcr.io/acme/train:1.4", "simulate": {"outcome": "never"}});
    let needs = json!({"workspaceRef": {"name": "terminating"}, "workload": workload});
    world.create_run("train", needs).await;
    world.state("train", "running").await;
    cluster_workspaces(&world).await;
    world.delete_workspace("terminating").await;
    world
        .workspace_ready("terminating", "False", "WorkspaceDeleting")
        .await;
    world.kill_operator();
    world.create_workspace("fresh", json!({})).await;
    world
        .apply("", "ClusterWorkspace", "fresh", json!({}))
        .await;
    let faster = Patch::Merge(json!({"spec": {"rateLimit": {"burst": 50}}}));
    world
        .workspaces()
        .patch("stale", &PatchParams::default(), &faster)
        .await
        .unwrap();
    read_by_all(&world, WORKSPACES).await;
    read_by_all(&world, CLUSTER_WORKSPACES).await;
}

async fn cluster_workspaces(world: &World) {
    let of = |secret: &str| json!({"tokenSecretRef": {"name": secret}});
    // An empty selector: Lua can't distinguish an empty table from an empty list, and Argo CD has to.
    let suspended = json!({"namespaceSelector": {}, "suspend": true});
    for (name, spec, status, reason) in [
        (
            "shared",
            json!({"namespaceSelector": {}}),
            "True",
            "Verified",
        ),
        ("suspended", suspended, "True", "Verified"),
        ("waiting", of("missing"), "False", "SecretNotFound"),
        ("refused", of("malformed"), "False", "TokenMalformed"),
    ] {
        world.apply("", "ClusterWorkspace", name, spec).await;
        ready(world, "ClusterWorkspace", name, status, reason).await;
    }
}
