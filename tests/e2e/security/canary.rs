//! A token that must be found nowhere, whatever the service does with it.

use std::net::TcpListener;

use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase, names};

use super::faults::{Echo, of_a_stream, of_any_answer};
use super::search::{everywhere, hits};
use crate::support::{Plane, Setup, World, condition_of, eventually, impatient_contract};
use test_cluster::ControlPlane;

/// With characters that each encoding writes in another way.
const FIRST: &str = "canary/1+6f0c8a~9e==";
const SECOND: &str = "canary.2_b7d1/44+f0==";
/// Never sent, and so never echoed; it must not show all the same.
const PROVIDER_KEY: &str = "sk-canary-of-a-provider";
/// Not a secret: it is next to the token in every echo, and must be found, or the search proves nothing.
const MARK: &str = "beacon-51c7";

/// A world on a control plane of its own whose audit log holds bodies, and whose operator waits seconds
/// where it else waits half a minute.
async fn world() -> World {
    let own = ControlPlane::start_with_audited_bodies().await.unwrap();
    let world = World::with(Setup {
        operator: vec!["--contract", impatient_contract("security-canary")],
        service: vec!["--heartbeat", "1s"],
        bare: true,
        plane: Plane::Own(Box::leak(Box::new(own))),
        ..Setup::default()
    })
    .await;
    world.service.post("tokens", json!({"token": FIRST})).await;
    world.token(FIRST).await;
    world.create_workspace("default", json!({})).await;
    world.workspace_ready("default", "True", "Verified").await;
    world
}

async fn fault(world: &World, fits: Value, echo: &Echo) {
    let rule = json!({"match": fits, "action": echo.action, "times": 1});
    world.service.post("faults", rule).await;
}

/// Waits until every fault has met its request.
async fn all_fired(world: &World) {
    eventually("every fault has met a request", async || {
        let faults = world.service.get("faults").await;
        let left: Vec<_> = faults
            .as_array()
            .unwrap()
            .iter()
            .filter(|fault| fault["fired"] == 0)
            .map(Value::to_string)
            .collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.join("\n"))
        }
    })
    .await;
    world.service.delete("faults").await;
}

/// Has the Workspace checked while the service spoils both its calls, one fault after the other.
async fn spoil_the_checks(world: &World, token: &str, echoes: &[Echo]) {
    for operation in ["getVersion", "getWorkspace"] {
        for echo in echoes {
            fault(world, json!({"operation": operation}), echo).await;
            let note = format!("{operation}-{}", echo.name);
            let secret = json!({"token": token, "note": note});
            world.secret("run-operator-token", secret).await;
            all_fired(world).await;
        }
    }
    world.token(token).await;
    world.workspace_ready("default", "True", "Verified").await;
}

/// A Run for each fault, which is met by its create, a read and its stream.
async fn spoil_the_runs(world: &World, anywhere: &[Echo], streams: &[Echo]) {
    for echo in anywhere.iter().chain(streams) {
        let name = &echo.name;
        let image = format!("example/{name}");
        if !name.starts_with("stream-") {
            fault(
                world,
                json!({"operation": "createRun", "image": image}),
                echo,
            )
            .await;
            fault(world, json!({"operation": "getRun", "runId": name}), echo).await;
        }
        fault(
            world,
            json!({"operation": "streamEvents", "runId": name}),
            echo,
        )
        .await;
        let simulate = json!({"runId": name, "outcome": "never"});
        let spec = json!({"workload": {"image": image, "simulate": simulate}});
        world.create_run(name, spec).await;
    }
    for echo in anywhere.iter().filter(|echo| echo.is_final) {
        world
            .run_until(&echo.name, "is refused", |run| {
                condition_of(run, Type::Stalled).is_some_and(|c| c.status == "True")
            })
            .await;
        let retry = json!({"metadata": {"annotations": {names::RETRY_ANNOTATION: "1"}}});
        world.patch_run(&echo.name, retry).await;
    }
    for echo in anywhere.iter().chain(streams) {
        world.phase(&echo.name, Phase::Active).await;
    }
    all_fired(world).await;
}

/// Has the service send texts about a run: its state, and events of every part.
async fn speak(world: &World, run: &str, secret: &str) {
    let event = json!({
        "type": format!("note {secret}"), "data": {secret: format!("{MARK} {secret}")},
        "id": format!("{MARK}-{secret}"),
    });
    world
        .service
        .post(&format!("runs/{run}/events"), event)
        .await;
    let state = json!({"state": format!("odd {MARK} {secret}")});
    world
        .service
        .post(&format!("runs/{run}/state"), state)
        .await;
    world
        .run_until(run, "shows the odd state", |run| {
            let state = run.status.as_ref().and_then(|s| s.state.as_deref());
            state.is_some_and(|state| state == format!("odd {MARK} [redacted]"))
        })
        .await;
}

/// Writes another token, while the service still accepts both.
async fn rotate(world: &World) {
    world.service.post("tokens", json!({"token": SECOND})).await;
    let asked = world.service.requests("getWorkspace").await.len();
    world.token(SECOND).await;
    world.asked("getWorkspace", asked + 1).await;
    world.workspace_ready("default", "True", "Verified").await;
}

/// Every fault again, with both tokens, in the cancellation of the Run that has its name.
async fn spoil_the_cancellations(world: &World, elsewhere: u16) {
    let both = of_any_answer(MARK, &format!("{SECOND},{FIRST}"), elsewhere);
    for echo in &both {
        let fits = json!({"operation": "cancelRun", "runId": echo.name});
        fault(world, fits, echo).await;
        let cancel = json!({"spec": {"cancel": true}});
        world.patch_run(&echo.name, cancel).await;
    }
    for echo in &both {
        world.phase(&echo.name, Phase::Cancelled).await;
    }
    all_fired(world).await;
}

/// Killed amid a call, started again, revoked, and then given what is no token.
async fn kill_and_refuse(world: &mut World) {
    let silent = json!({"type": "hang", "forMs": 60_000});
    world
        .service
        .fault(json!({"operation": "getVersion"}), silent)
        .await;
    let versions = world.service.requests("getVersion").await.len();
    let secret = json!({"token": SECOND, "note": "killed"});
    world.secret("run-operator-token", secret).await;
    world.asked("getVersion", versions + 1).await;
    world.kill_operator();
    let version = json!({"version": format!("1.0.0 {MARK} for {SECOND}")});
    world.service.put("version", version).await;
    world.start_operator().await;
    speak(world, "stream-cut", SECOND).await;
    let check = world.service.requests("getWorkspace").await.pop().unwrap();
    let fingerprint = check["token"].as_str().unwrap();
    world.service.delete(&format!("tokens/{fingerprint}")).await;
    world.token(&format!("{SECOND}\n{FIRST}")).await;
    world
        .workspace_ready("default", "False", "TokenMalformed")
        .await;
    world.token(PROVIDER_KEY).await;
    world
        .workspace_ready("default", "False", "TokenIsProviderKey")
        .await;
}

/// Proves: R7, X-canary
#[tokio::test]
async fn no_fault_brings_a_token_old_or_new_anywhere() {
    let mut world = world().await;
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let port = elsewhere.local_addr().unwrap().port();

    let anywhere = of_any_answer(MARK, FIRST, port);
    let streams = of_a_stream(MARK, FIRST);
    spoil_the_checks(&world, FIRST, &anywhere).await;
    spoil_the_runs(&world, &anywhere, &streams).await;
    speak(&world, "late", FIRST).await;

    rotate(&world).await;
    let both = format!("{SECOND} {FIRST}");
    speak(&world, "late", &both).await;
    spoil_the_cancellations(&world, port).await;
    kill_and_refuse(&mut world).await;

    let places = everywhere(&world).await;
    let log = &places[0].1;
    assert!(log.contains("TRACE"), "the log is not at trace");
    for place in ["Runs", "Workspaces", "Events", "audit log"] {
        let text = &places.iter().find(|(name, _)| *name == place).unwrap().1;
        assert!(text.contains(MARK), "no echo got into the {place}");
        assert!(
            text.contains("[redacted]"),
            "nothing was taken out of the {place}"
        );
    }
    assert!(log.contains(MARK), "no echo got into the log");
    for secret in [FIRST, SECOND, PROVIDER_KEY, "sk-proj-0a1b2c3d4e5f6g7h"] {
        let hits = hits(&places, secret);
        assert!(hits.is_empty(), "{secret} is shown:\n{}", hits.join("\n"));
    }
    let came = elsewhere.accept();
    assert!(came.is_err(), "a redirect was followed: {came:?}");
    assert_eq!(world.operator.as_mut().unwrap().terminate().await, Some(0));
    let after = hits(&[("log", world.operator_log())], SECOND);
    assert!(after.is_empty(), "{}", after.join("\n"));
}

/// A Secret that has one more manager, whose fields are so deep that a tree of them can't be decoded.
async fn store_deep(world: &World, token: &str) {
    let levels = 300;
    let deep = format!("{}{{}}{}", r#"{"f:a":"#.repeat(levels), "}".repeat(levels));
    let secret = format!(
        r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"run-operator-token","managedFields":[{{"manager":"deep","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{deep}}}]}},"stringData":{{"token":"{token}"}}}}"#
    );
    let url = format!("/api/v1/namespaces/{}/secrets", world.namespace);
    let request = http::Request::post(url).header("content-type", "application/json");
    let request = request.body(secret.into_bytes()).unwrap();
    let stored = world.client.request_text(request).await.unwrap();
    assert!(stored.contains(&r#"{"f:a":"#.repeat(levels)), "{stored}");
}

/// Proves: X-canary
#[tokio::test]
async fn a_secret_with_deep_managed_fields_is_read_and_never_logged() {
    let world = World::with(Setup {
        bare: true,
        ..Setup::default()
    })
    .await;
    world.service.post("tokens", json!({"token": FIRST})).await;
    store_deep(&world, FIRST).await;
    world.create_workspace("default", json!({})).await;
    world.workspace_ready("default", "True", "Verified").await;
    let found = hits(&[("log", world.operator_log())], FIRST);
    assert!(found.is_empty(), "{}", found.join("\n"));
}
