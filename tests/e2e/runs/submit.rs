//! `submit`: what it makes, what it finds, what it refuses.

use run_operator::api::Phase;
use serde_json::{Value, json};

use crate::stale::Proxy;
use crate::support::World;

use super::{desk, manifest, plugin, runs, start, started};

/// Proves: K-submit
#[tokio::test]
async fn flags_and_files_make_the_same_run() {
    let world = desk().await;
    let flags = [
        "submit",
        "--image",
        "i",
        "--name",
        "train",
        "--set",
        "gpus=2",
        "--set",
        "args=[--fast, x]",
        "--set",
        r"env.A\.B=1.5",
        "--set",
        "version='1.0'",
        "--workspace",
        "ClusterWorkspace/shared",
        "--idempotency-key",
        "k-1",
        "--dry-run",
        "client",
        "-o",
        "json",
    ];
    let proxy = Proxy::start(world.control_plane).await;
    let dry_run = async |args: &[&str], input: &str| -> Value {
        let out = started(plugin(&world, proxy.kubeconfig(), args), input);
        serde_json::from_str(&out.end().await.ok()).unwrap()
    };
    let run = dry_run(&flags, "").await;
    let mut spec = json!({
        "idempotencyKey": "k-1",
        "workspaceRef": {"kind": "ClusterWorkspace", "name": "shared"},
        "workload": {"image": "i", "gpus": 2, "args": ["--fast", "x"], "env": {"A.B": 1.5}, "version": "1.0"},
    });
    assert_eq!(run["spec"], spec);
    assert_eq!(run["metadata"]["name"], "train");
    let file = ["submit", "-f", "-", "--dry-run=client", "-o", "json"];
    assert_eq!(dry_run(&file, &manifest("train", &spec)).await, run);
    // It is the API server that refuses unknown fields.
    spec["worklaod"] = json!({});
    let run = dry_run(&file, &manifest("train", &spec)).await;
    assert_eq!(run["spec"], spec);
    let asked = proxy.asked(|_| true);
    assert!(asked.is_empty(), "{asked:?}");
    assert!(runs(&world, &["list", "-o", "name"]).await.ok().is_empty());
}

/// Proves: K-once
#[tokio::test]
async fn the_same_command_with_a_key_submits_nothing_twice() {
    let world = World::new().await;
    let submit = [
        "submit",
        "--image",
        "i",
        "--idempotency-key",
        "night-1",
        "--set",
        "ratio=1.0",
    ];
    let first = runs(&world, &submit).await.ok();
    let name = first.strip_suffix(" created\n").unwrap();
    let again = runs(&world, &submit).await.ok();
    assert_eq!(
        again,
        format!("{name} unchanged: it was submitted before, with this key\n")
    );
    let other = ["submit", "--image", "j", "--idempotency-key", "night-1"];
    let elsewhere = [&submit[..], &["--workspace", "other"]].concat();
    let mut refused = vec![start(&world, &other, ""), start(&world, &elsewhere, "")];
    for place in ["provider", "region"] {
        let mut spec =
            json!({"workload": {"image": "i", "ratio": 1.0}, "idempotencyKey": "night-1"});
        spec[place] = "elsewhere".into();
        refused.push(start(&world, &["submit", "-f", "-"], &manifest("", &spec)));
    }
    for submit in refused {
        let said = submit.end().await.ended(2);
        assert!(
            said.contains("exists with another workload or place"),
            "{said}"
        );
    }
    assert_eq!(
        runs(&world, &["list", "-o", "name"])
            .await
            .ok()
            .lines()
            .count(),
        1
    );
    let wait = [&submit[..], &["--wait"]].concat();
    let out = runs(&world, &wait).await.ok();
    assert!(out.ends_with("Succeeded\n"), "{out}");
    assert_eq!(world.service.runs().await.len(), 1);
}

/// Proves: K-submit
#[tokio::test]
async fn what_can_not_be_a_run_is_refused_and_nothing_is_stored() {
    let world = desk().await;
    let workspace =
        json!({"apiVersion": "run-operator.dev/v1alpha1", "kind": "Workspace"}).to_string();
    let typo = manifest(
        "train",
        &json!({"worklaod": {}, "workload": {"image": "i"}}),
    );
    let foreign = manifest("train", &json!({"workload": {"image": "i"}}))
        .replace(r#""name""#, r#""namespace":"elsewhere","name""#);
    let file = &["-f", "-"][..];
    let image = |more: &[&'static str]| [&["--image", "i"], more].concat();
    let unknown = r#"unknown field "spec.worklaod""#;
    for (args, input, part) in [
        (
            file,
            workspace.as_str(),
            "only run-operator.dev/v1alpha1 Run can be submitted",
        ),
        (file, "", "has no Run"),
        (file, "a: [", "is no YAML or JSON"),
        (file, &typo, unknown),
        (&["-f", "-", "--dry-run=server"], &typo, unknown),
        (file, &foreign, "does not match the namespace"),
        (
            &["-f", "/nonexistent/run.yaml"],
            "",
            "failed to read /nonexistent/run.yaml",
        ),
        (&[], "", "--filename <FILE>"),
        (&image(&["-f", "x"]), "", "cannot be used with"),
        (
            &image(&["--timeout", "5s"]),
            "",
            "--timeout needs --wait or --follow",
        ),
        (
            &image(&["--set", "gpus"]),
            "",
            "it needs a key, = and a value",
        ),
        (
            &image(&["--set", "a=1", "--set", "a.b=2"]),
            "",
            "value of its own",
        ),
        (&image(&["--set", "image=j"]), "", "set already"),
        (
            &image(&["--workspace", "Secret/x"]),
            "",
            "no kind of a Workspace",
        ),
        (
            &image(&["--name", "Not_A_Name"]),
            "",
            "Error from server (Invalid)",
        ),
    ] {
        let submit = [&["submit"], args].concat();
        let said = start(&world, &submit, input).end().await.ended(2);
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    assert!(runs(&world, &["list", "-o", "name"]).await.ok().is_empty());
}

/// Proves: K-submit
#[tokio::test]
async fn a_file_with_what_can_not_be_a_run_stores_nothing() {
    let world = desk().await;
    let spec = json!({"workload": {"image": "i"}});
    let good = manifest("good", &spec);
    let workspace = good.replace(r#""Run""#, r#""Workspace""#);
    let foreign =
        manifest("foreign", &spec).replace(r#""name""#, r#""namespace":"elsewhere","name""#);
    let typo = json!({"worklaod": {}, "workload": {"image": "i"}});
    for (second, part) in [
        (workspace, "object 2 is run-operator.dev/v1alpha1 Workspace"),
        (foreign, "does not match the namespace"),
        (manifest("typo", &typo), r#"unknown field "spec.worklaod""#),
        (manifest("Not_A_Name", &spec), "Error from server (Invalid)"),
    ] {
        let list = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{good},{second}]}}"#);
        let submit = start(&world, &["submit", "-f", "-"], &list);
        let said = submit.end().await.ended(2);
        assert!(said.contains(part), "{part:?} is not in {said}");
        let stored = runs(&world, &["list", "-o", "name"]).await.ok();
        assert!(stored.is_empty(), "{part:?}: {stored}");
    }
}

/// A follower has printed that the Run was made, a line for each event that its status counts, and the end.
async fn every_event_and_the_end(world: &World, out: &str) {
    let status = world.released("train").await.status.unwrap();
    let events = usize::try_from(status.event_count.unwrap()).unwrap();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), events + 2, "{out}");
    assert_eq!(lines.last(), Some(&"run.run-operator.dev/train Succeeded"));
}

/// Proves: K-follow
#[tokio::test]
async fn events_that_come_after_the_end_of_a_run_are_shown_before_it() {
    let world = World::new().await;
    let streams = json!({"operation": "streamEvents"});
    let away = json!({"type": "answer", "status": 503});
    world.service.lasting_fault(streams, away).await;
    let submit = ["submit", "--image", "i", "--name", "train", "--follow"];
    let follow = start(&world, &submit, "");
    world.phase("train", Phase::Succeeded).await;
    world.service.delete("faults").await;
    let out = follow.end().await.ok();
    every_event_and_the_end(&world, &out).await;
}
