//! An object that the operator can't read, or that is deep or heavy, doesn't stop the others.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::json;

use run_operator::api::{ConditionType as Type, Phase};

use crate::stale::stage;
use crate::support::{Fault, Plane, Setup, World, condition_of, eventually, says};
use test_support::proc::number;

/// Creates the Run `odd`, whose spec can't be read, on a loose control plane. The Runs, as the API server has them.
pub(crate) async fn odd_run(world: &World) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("run-operator.dev", "v1alpha1", "Run");
    let any: Api<DynamicObject> = Api::namespaced_with(
        world.client.clone(),
        &world.namespace,
        &ApiResource::from_gvk(&kind),
    );
    let odd = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": "odd"},
        "spec": {"workload": {"image": "example/odd"}, "suspend": "perhaps"},
    });
    let odd: DynamicObject = serde_json::from_value(odd).unwrap();
    eventually("the API server takes the odd Run", async || {
        any.create(&PostParams::default(), &odd).await.map(drop)
    })
    .await;
    any
}

/// Proves: F-undecodable
#[tokio::test]
async fn an_undecodable_run_is_reported_and_stops_no_other() {
    let mut world = World::with(Setup {
        plane: Plane::Loose,
        ..Setup::default()
    })
    .await;
    for name in ["before", "torn"] {
        world.running(name).await;
    }
    let any = odd_run(&world).await;
    told(&world).await;
    shown(&any).await;
    stops_streaming(&world, &any).await;
    world.create_run("after", json!({})).await;
    world.phase("after", Phase::Succeeded).await;

    // Also in the list that a new process begins with.
    world.kill_operator();
    world.start_operator().await;
    told(&world).await;
    world.create_run("later", json!({})).await;
    world.phase("later", Phase::Succeeded).await;
    world.delete_run("before").await;
    world.gone("before").await;

    let correction = json!({"spec": {"suspend": false}});
    any.patch("odd", &PatchParams::default(), &Patch::Merge(correction))
        .await
        .unwrap();
    world.phase("odd", Phase::Succeeded).await;
    assert_eq!(world.service.runs().await.len(), 5);
}

/// A run whose object can't be read any more is not followed, and again when it can be read.
async fn stops_streaming(world: &World, any: &Api<DynamicObject>) {
    for (suspend, streams) in [(json!("perhaps"), 1.0), (json!(false), 2.0)] {
        let edit = Patch::Merge(json!({"spec": {"suspend": suspend}}));
        any.patch("torn", &PatchParams::default(), &edit)
            .await
            .unwrap();
        world.metric_is("run_operator_open_streams", streams).await;
    }
}

/// The log names the object, and a metric counts it.
async fn told(world: &World) {
    world
        .metric("run_operator_undecodable_objects_total", 1.0..)
        .await;
    // A failed reconcile is logged at its end.
    let failed = "failed to decode an object";
    world.logs(failed).await;
    let log = world.operator_log();
    let line = log.lines().find(|line| line.contains(failed)).unwrap();
    assert!(line.contains("odd"), "{line}");
    assert!(!log.contains("perhaps"), "the log holds what is in it");
}

/// Waits until the object itself shows that it can't be read.
async fn shown(any: &Api<DynamicObject>) {
    eventually("the undecodable Run says so", async || {
        let odd = any.get("odd").await.map_err(|error| error.to_string())?;
        let conditions = odd.data["status"]["conditions"].to_string();
        let told = conditions.contains(r#""reason":"RunInvalid""#);
        told.then_some(()).ok_or(conditions)
    })
    .await;
}

/// Proves: F-undecodable
#[tokio::test]
async fn runs_of_an_undecodable_workspace_are_reported() {
    let world = World::with(Setup {
        plane: Plane::Loose,
        ..Setup::default()
    })
    .await;
    world.workspace_ready("default", "True", "Verified").await;
    let suspend = async |value: &str| {
        let patch = format!(r#"--patch={{"spec":{{"suspend":{value}}}}}"#);
        let workspace = "workspaces.run-operator.dev";
        let edit = ["patch", workspace, "default", "--type=merge", &patch];
        eventually("the API server takes the Workspace", async || {
            world.kubectl(&edit, "").await
        })
        .await;
    };
    suspend(r#""perhaps""#).await;
    world.create_run("train", json!({})).await;
    let run = world.not_ready("train", "WorkspaceNotReady").await;
    let told = condition_of(&run, Type::Ready).unwrap();
    says(&told.message, &["WorkspaceInvalid"]);
    suspend("null").await;
    world.heals("train").await;
}

/// kube's client warns of an answer that it can't decode with the whole text of it.
/// Proves: F-undecodable
#[tokio::test]
async fn a_list_that_is_no_json_is_in_no_log() {
    let (proxy, mut world) = stage().await;
    let run = json!({"workload": {"image": "a", "note": "in-no-log"}});
    world.create_run("train", run).await;
    world.phase("train", Phase::Succeeded).await;
    world.kill_operator();
    proxy.fault(1, Fault::Truncate, |asked| asked.is("list", "runs"));
    world.start_operator().await;
    world.create_run("next", json!({})).await;
    world.phase("next", Phase::Succeeded).await;
    world.logs("watch failed").await;
    assert!(!world.operator_log().contains("in-no-log"));
}

/// Creates a Run from text: no tree of it is made here either.
async fn create_text(world: &World, name: &str, more: &str) {
    let url = format!(
        "/apis/run-operator.dev/v1alpha1/namespaces/{}/runs?fieldValidation=Ignore",
        world.namespace
    );
    let text = format!(
        r#"{{"apiVersion":"run-operator.dev/v1alpha1","kind":"Run","metadata":{{"name":"{name}"}},"spec":{{"workload":{{"image":"example/{name}",{more}}}}}}}"#
    );
    let request = http::Request::post(url)
        .header("content-type", "application/json")
        .body(text.into_bytes())
        .unwrap();
    match world.client.request_text(request).await {
        Ok(_) => {}
        // The client repeats a create whose answer took too long.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => panic!("{error}"),
    }
}

/// Proves: F-heavy
#[tokio::test]
async fn a_deep_workload_is_submitted_and_stops_no_other() {
    let mut world = World::new().await;
    world.kill_operator();
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    for (name, levels) in [("deep", 130), ("deepest", 4000)] {
        create_text(&world, name, &format!(r#""a":{}"#, nested(levels))).await;
    }
    world.create_run("plain", json!({})).await;
    world.start_operator().await;
    // Their objects can't be decoded here either.
    let succeeded = r#"run_operator_runs{phase="Succeeded"}"#;
    world.metric_is(succeeded, 3.0).await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 3);
    // Unchanged: a workload that is too deep for the service's tree is there as the original text.
    let mut sent = runs.iter().map(|run| &run["body"]["workload"]);
    let deep = sent.find(|sent| sent["image"] == "example/deep").unwrap();
    assert_eq!(deep["a"].as_str().unwrap(), nested(130));
    let undecodable = "run_operator_undecodable_objects_total";
    assert_eq!(world.operator().metric(undecodable).await, 0.0);
}

/// Bytes of the operator that are resident, by the kernel.
fn resident(world: &World) -> u64 {
    let kib = number(world.operator().pid(), "status", "VmHWM").unwrap();
    kib * 1024
}

/// The worst that etcd takes: a tree of it would have some 600 MiB.
/// Proves: F-heavy
#[tokio::test]
async fn heavy_objects_cost_what_they_weigh() {
    const OBJECTS: usize = 2;
    let mut world = World::with_flags(&["--log-filter", "info"]).await;
    world.create_run("plain", json!({})).await;
    world.released("plain").await;
    let before = resident(&world);
    let many = format!(r#""a":[{}{{"a":0}}]"#, r#"{"a":0},"#.repeat(160_000));
    create_text(&world, "heavy-0", &many).await;
    world.asked("createRun", 2).await;
    let one = resident(&world) - before;
    for n in 1..OBJECTS {
        create_text(&world, &format!("heavy-{n}"), &many).await;
        world.asked("createRun", n + 2).await;
    }
    let all = resident(&world) - before;
    assert!(one < 32 << 20, "one costs {one} bytes");
    assert!(all < 64 << 20, "{OBJECTS} cost {all} bytes");
    // In the list of a new process too.
    world.kill_operator();
    world.start_operator().await;
    world.create_run("last", json!({})).await;
    world.released("last").await;
    let listed = resident(&world);
    assert!(listed < before + (64 << 20), "listed: {listed} bytes");
}
