//! `submit`: what it makes, what it finds, what it refuses.

use run_operator::api::Phase;
use serde_json::{Value, json};

use crate::stale::Proxy;
use crate::support::{World, says};

use super::{desk, manifest, runs, start, started};

/// Proves: K-submit
#[tokio::test]
async fn flags_and_files_make_the_same_run() {
    let world = desk().await;
    let flags = [
        "submit --image i --name train --set gpus=2 --set args=[--fast,x]",
        r"--set env.A\.B=1.5 --set version='1.0'",
        "--workspace ClusterWorkspace/shared --priority -5 --idempotency-key k-1 --dry-run client -o json",
    ];
    let proxy = Proxy::start(world.control_plane).await;
    let dry_run = async |words: &str, input: &str| -> Value {
        let out = started(&world, proxy.kubeconfig(), words, input);
        serde_json::from_str(&out.end().await.ok()).unwrap()
    };
    let run = dry_run(&flags.join(" "), "").await;
    let mut spec = json!({
        "idempotencyKey": "k-1",
        "priority": -5,
        "workspaceRef": {"kind": "ClusterWorkspace", "name": "shared"},
        "workload": {"image": "i", "gpus": 2, "args": ["--fast", "x"], "env": {"A.B": 1.5}, "version": "1.0"},
    });
    assert_eq!(run["spec"], spec);
    assert_eq!(run["metadata"]["name"], "train");
    let file = "submit -f - --dry-run=client -o json";
    assert_eq!(dry_run(file, &manifest("train", &spec)).await, run);
    // It is the API server that refuses unknown fields.
    spec["worklaod"] = json!({});
    let run = dry_run(file, &manifest("train", &spec)).await;
    assert_eq!(run["spec"], spec);
    let asked = proxy.asked(|_| true);
    assert!(asked.is_empty(), "{asked:?}");
    assert!(runs(&world, "list -o name").await.ok().is_empty());
}

/// Proves: K-submit
#[tokio::test]
async fn the_same_command_with_a_key_submits_nothing_twice() {
    let world = World::new().await;
    let submit = "submit --image i --idempotency-key night-1 --set ratio=1.0";
    let first = runs(&world, submit).await.ok();
    let name = first.strip_suffix(" created\n").unwrap();
    let again = runs(&world, submit).await.ok();
    let unchanged = "unchanged: it was submitted before, with this key";
    assert_eq!(again, format!("{name} {unchanged}\n"));
    let other = "submit --image j --idempotency-key night-1";
    let elsewhere = format!("{submit} --workspace other");
    let mut refused = vec![start(&world, other, ""), start(&world, &elsewhere, "")];
    for place in ["provider", "region"] {
        let workload = json!({"image": "i", "ratio": 1.0});
        let spec = json!({"workload": workload, "idempotencyKey": "night-1", place: "elsewhere"});
        refused.push(start(&world, "submit -f -", &manifest("", &spec)));
    }
    for submit in refused {
        let said = submit.end().await.ended(2);
        says(&said, &["exists with another workload or place"]);
    }
    let listed = runs(&world, "list -o name").await.ok();
    assert_eq!(listed.lines().count(), 1);
    let out = runs(&world, &format!("{submit} --wait")).await.ok();
    assert!(out.ends_with("Succeeded\n"), "{out}");
    assert_eq!(world.service.runs().await.len(), 1);
}

/// Proves: K-submit
#[tokio::test]
async fn what_can_not_be_a_run_is_refused_and_nothing_is_stored() {
    let world = desk().await;
    let spec = json!({"workload": {"image": "i"}});
    let good = manifest("good", &spec);
    let workspace = good.replace(r#""Run""#, r#""Workspace""#);
    let foreign = good.replace(r#""name""#, r#""namespace":"elsewhere","name""#);
    let typo = json!({"worklaod": {}, "workload": {"image": "i"}});
    let typo = manifest("typo", &typo);
    let no_name = manifest("Not_A_Name", &spec);
    let list = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{good}]}}"#);
    let two = format!("{good}\n---\n{good}");
    let unknown = r#"unknown field "spec.worklaod""#;
    for (input, words, part) in [
        (
            workspace.as_str(),
            "-f -",
            "only run-operator.dev/v1alpha1 Run",
        ),
        (&list, "-f -", "only run-operator.dev/v1alpha1 Run"),
        (&two, "-f -", "kubectl create -f"),
        (&foreign, "-f -", "does not match the namespace"),
        (&typo, "-f -", unknown),
        (&no_name, "-f -", "Error from server (Invalid)"),
        (&typo, "-f - --dry-run=server", unknown),
        ("", "-f -", "must have one Run"),
        ("a: [", "-f -", "is no YAML or JSON"),
        ("", "-f /nonexistent", "failed to read /nonexistent"),
        ("", "", "--filename <FILE>"),
        ("", "--image i -f x", "cannot be used with"),
        ("", "--image i --timeout 5s", "<--wait|--follow>"),
        ("", "--image i --set gpus", "it needs a key, = and a value"),
        ("", "--image i --set a=1 --set a.b=2", "value of its own"),
        ("", "--image i --set image=j", "set already"),
        ("", "--image i --workspace Secret/x", "no kind of a"),
    ] {
        let submit = format!("submit {words}");
        let said = start(&world, &submit, input).end().await.ended(2);
        assert!(said.contains(part), "{words}: {part:?} is not in {said}");
    }
    assert!(runs(&world, "list -o name").await.ok().is_empty());
}

/// Proves: K-submit
#[tokio::test]
async fn events_that_come_after_the_end_of_a_run_are_shown_before_it() {
    let world = World::new().await;
    let streams = json!({"operation": "streamEvents"});
    let away = json!({"type": "answer", "status": 503});
    world.service.lasting_fault(streams, away).await;
    let follow = start(&world, "submit --image i --name train --follow", "");
    world.phase("train", Phase::Succeeded).await;
    world.service.delete("faults").await;
    let out = follow.end().await.ok();
    // A line says that the Run was made, then there is one for each event that its status counts.
    let status = world.released("train").await.status.unwrap();
    let events = usize::try_from(status.event_count.unwrap()).unwrap();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), events + 2, "{out}");
    assert_eq!(lines.last(), Some(&"run.run-operator.dev/train Succeeded"));
}
