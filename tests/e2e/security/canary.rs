//! A token that must be found nowhere, whatever the service does with it.

use std::net::TcpListener;

use serde_json::json;

use run_operator::api::{Phase, names};

use super::faults::{Echo, of_a_stream, of_any_answer};
use super::search::{everywhere, hits};
use crate::support::{Plane, Setup, World, audited_control_plane, eventually, impatient_contract};

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
    let world = World::with(Setup {
        operator: vec!["--contract", impatient_contract("security-canary")],
        service: vec!["--heartbeat", "1s"],
        bare: true,
        plane: Plane::Own(audited_control_plane().await),
        ..Setup::default()
    })
    .await;
    world.service.post("tokens", json!({"token": FIRST})).await;
    world.token(FIRST).await;
    world.create_workspace("default", json!({})).await;
    world.workspace_ready("default", "True", "Verified").await;
    world
}

/// Waits until every fault has met its request.
async fn all_fired(world: &World) {
    eventually("every fault has met a request", async || {
        let faults = world.service.get("faults").await;
        let mut faults = faults.as_array().unwrap().iter();
        match faults.find(|fault| fault["fired"] == 0) {
            None => Ok(()),
            Some(left) => Err(left.clone()),
        }
    })
    .await;
    world.service.delete("faults").await;
}

/// Has the Workspace checked while the service spoils both its calls, one fault after the other.
async fn spoil_the_checks(world: &World, token: &str, echoes: &[Echo]) {
    for operation in ["getVersion", "getWorkspace"] {
        for echo in echoes {
            let fits = json!({"operation": operation});
            world.service.fault(fits, echo.action.clone()).await;
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
        let name = echo.name;
        let image = format!("example/{name}");
        let mut met = vec![json!({"operation": "streamEvents", "runId": name})];
        if !name.starts_with("stream-") {
            met.push(json!({"operation": "createRun", "image": image}));
            met.push(json!({"operation": "getRun", "runId": name}));
        }
        for fits in met {
            world.service.fault(fits, echo.action.clone()).await;
        }
        let simulate = json!({"runId": name, "outcome": "never"});
        let spec = json!({"workload": {"image": image, "simulate": simulate}});
        world.create_run(name, spec).await;
    }
    // A create that is answered so needs a person's retry.
    world.stalled("refusal", "Forbidden").await;
    let retry = json!({"metadata": {"annotations": {names::RETRY_ANNOTATION: "1"}}});
    world.patch_run("refusal", retry).await;
    for echo in anywhere.iter().chain(streams) {
        world.phase(echo.name, Phase::Active).await;
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
    let state = format!("odd {MARK} {secret}");
    world.set_state(run, &state).await;
    world.state(run, &format!("odd {MARK} [redacted]")).await;
}

/// Killed amid a call, started again, and then given what is no token.
async fn kill_and_refuse(world: &mut World) {
    let silent = json!({"type": "hang", "forMs": 60_000});
    let version = json!({"operation": "getVersion"});
    world.service.fault(version, silent).await;
    let versions = world.service.requests("getVersion").await.len();
    let secret = json!({"token": SECOND, "note": "killed"});
    world.secret("run-operator-token", secret).await;
    world.asked("getVersion", versions + 1).await;
    world.kill_operator();
    let version = json!({"version": format!("1.0.0 {MARK} for {SECOND}")});
    world.service.put("version", version).await;
    world.start_operator().await;
    speak(world, "stream-cut", SECOND).await;
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
    speak(&world, "merged-texts", FIRST).await;

    // The service accepts both.
    world.rotate(SECOND, 1).await;
    world.workspace_ready("default", "True", "Verified").await;
    let both = format!("{SECOND} {FIRST}");
    speak(&world, "merged-texts", &both).await;
    // Both again in the answers to a cancellation. A later process doesn't know the first.
    for echo in of_any_answer(MARK, &both, port) {
        let fits = json!({"operation": "cancelRun", "runId": echo.name});
        world.service.fault(fits, echo.action).await;
        let cancel = json!({"spec": {"cancel": true}});
        world.patch_run(echo.name, cancel).await;
    }
    for echo in &anywhere {
        world.phase(echo.name, Phase::Cancelled).await;
    }
    kill_and_refuse(&mut world).await;

    let places = everywhere(&world).await;
    let log = &places[0].1;
    assert!(log.contains("TRACE"), "the log is not at trace");
    for place in ["log", "Runs", "Workspaces", "Events", "audit log"] {
        let text = &places.iter().find(|(name, _)| *name == place).unwrap().1;
        assert!(text.contains(MARK), "no echo got into the {place}");
        let taken_out = place == "log" || text.contains("[redacted]");
        assert!(taken_out, "nothing was taken out of the {place}");
    }
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
