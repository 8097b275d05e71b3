//! `submit --template`, `rerun` and `schedule`. None of them needs an operator that serves schedules.

use kube::ResourceExt;
use serde_json::{Value, json};

use run_operator::api::{Run, names};

use crate::support::{World, says};

use super::{SUCCEEDED, desk, each_says, runs, shows, started};

/// A template with a parameter that must be given.
async fn template(world: &World) {
    let spec = json!({
        "parameters": [{"name": "model"}, {"name": "epochs", "type": "integer", "default": 10}],
        "template": {
            "metadata": {"labels": {"model": "$(params.model)"}},
            "spec": {"workload": {"image": "ghcr.io/acme/$(params.model):1", "epochs": "$(params.epochs)"}},
        },
    });
    let namespace = &world.namespace;
    world.apply(namespace, "RunTemplate", "train", spec).await;
}

async fn schedule(world: &World, name: &str, spec: &Value) {
    let mut spec = spec.clone();
    spec["schedules"] = json!(["17 2 * * *"]);
    let namespace = &world.namespace;
    world.apply(namespace, "RunSchedule", name, spec).await;
}

fn workload(run: &Run) -> Value {
    serde_json::from_str(run.spec.workload.as_str()).unwrap()
}

fn annotation<'a>(run: &'a Run, key: &str) -> Option<&'a str> {
    run.annotations().get(key).map(String::as_str)
}

/// Proves: K-submit
#[tokio::test]
async fn a_template_with_its_parameters_makes_a_run() {
    let world = desk().await;
    template(&world).await;
    let submit = "submit --template train --set model=tiny --priority 2 --name first";
    let out = runs(&world, submit).await.ok();
    assert_eq!(out, "run.run-operator.dev/first created\n");
    let run = world.run("first").await;
    let expected = json!({"image": "ghcr.io/acme/tiny:1", "epochs": 10});
    assert_eq!(workload(&run), expected);
    assert_eq!(run.spec.priority, Some(2));
    assert_eq!(run.labels()["model"], "tiny");
    assert_eq!(
        annotation(&run, names::TEMPLATE_ANNOTATION),
        Some("train@1")
    );
    let why = runs(&world, "why first").await.ok();
    says(&why, &["From RunTemplate train, generation 1.\n"]);
    let named = "submit --template train --set model=tiny -o name";
    let out = runs(&world, named).await.ok();
    assert!(out.starts_with("run.run-operator.dev/train-"), "{out}");
    let keyed = "submit --template train --set model=tiny --idempotency-key k";
    runs(&world, keyed).await.ok();
    let again = runs(&world, keyed).await.ok();
    says(&again, &["unchanged: it was submitted before"]);
    let commands = [
        ("submit --template train", 2, r#""model" has no default"#),
        (
            "submit --template train --set model=a --set rate=1",
            2,
            r#"has no parameter "rate"; it has model, epochs"#,
        ),
        (
            "submit --template train --set model=a --set epochs=ten",
            2,
            "is an integer",
        ),
        (
            "submit --template train --set model",
            2,
            "it needs the name of a parameter, = and a value",
        ),
        (
            "submit --template train --set model=a --set model=b",
            2,
            "the parameter model is set already",
        ),
        (
            "submit --template none",
            2,
            r#"runtemplates.run-operator.dev "none" not found"#,
        ),
        (
            "submit --template train --image i",
            2,
            "cannot be used with",
        ),
    ];
    each_says(&world, &commands).await;
}

/// Proves: K-submit
#[tokio::test]
async fn an_ended_run_is_run_again_under_the_next_free_name() {
    let world = desk().await;
    let spec = json!({"idempotencyKey": "k", "suspend": true, "priority": 3});
    let old = world.create_run("train", spec).await;
    let annotations = json!({"note": "n", names::RETRY_ANNOTATION: "1"});
    let metadata = json!({"labels": {"team": "vision"}, "annotations": annotations});
    world
        .patch_run("train", json!({"metadata": metadata}))
        .await;
    shows(&world, "train", SUCCEEDED, "Succeeded").await;
    let commands = [
        ("rerun train", 0, "run.run-operator.dev/train-r2 created\n"),
        ("rerun train", 0, "run.run-operator.dev/train-r3 created\n"),
        ("rerun train-r2", 2, "train-r2 has not ended"),
        (
            "rerun train-r2 --beside",
            0,
            "run.run-operator.dev/train-r4 created\n",
        ),
        (
            "rerun train --name other -o name",
            0,
            "run.run-operator.dev/other\n",
        ),
        ("rerun train --name other", 2, "(AlreadyExists)"),
        ("rerun train --set lr=1", 2, "is not from a RunTemplate"),
        ("rerun none", 2, r#""none" not found"#),
    ];
    each_says(&world, &commands).await;
    let new = world.run("train-r2").await;
    assert_eq!(workload(&new), workload(&old));
    assert_eq!(new.spec.priority, Some(3));
    assert_eq!(new.spec.idempotency_key, None);
    assert_eq!(new.spec.suspend, None);
    assert_eq!(new.labels()["team"], "vision");
    assert_eq!(annotation(&new, "note"), Some("n"));
    assert_eq!(annotation(&new, names::RETRY_ANNOTATION), None);
}

/// Proves: K-submit
#[tokio::test]
async fn a_run_of_a_template_is_made_anew_with_other_parameters() {
    let world = desk().await;
    template(&world).await;
    let submit = "submit --template train --set model=tiny --set epochs=1 --name train";
    runs(&world, submit).await.ok();
    shows(&world, "train", SUCCEEDED, "Succeeded").await;
    runs(&world, "rerun train --set model=large").await.ok();
    let expected = json!({"image": "ghcr.io/acme/large:1", "epochs": 10});
    assert_eq!(workload(&world.run("train-r2").await), expected);
}

/// Proves: K-change
#[tokio::test]
async fn a_schedule_is_listed_held_resumed_and_triggered() {
    let world = desk().await;
    let body = json!({"template": {"spec": {"workload": {"image": "i"}}}});
    schedule(&world, "nightly", &body).await;
    let broken = json!({"templateRef": {"name": "none"}});
    schedule(&world, "broken", &broken).await;
    let out = runs(&world, "schedule list").await.ok();
    let heads = [
        "NAME",
        "SCHEDULES",
        "TIME ZONE",
        "SUSPEND",
        "NEXT",
        "REASON",
    ];
    says(&out, &heads);
    says(&out, &["broken", "nightly", "17 2 * * *", "UTC"]);
    let commands = [
        (
            "schedule suspend nightly",
            0,
            "runschedule.run-operator.dev/nightly suspended\n",
        ),
        (
            "schedule suspend schedule/nightly",
            0,
            "nightly unchanged: it is suspended\n",
        ),
        ("schedule list", 0, "true"),
        (
            "schedule resume nightly",
            0,
            "runschedule.run-operator.dev/nightly resumed\n",
        ),
        (
            "schedule resume nightly",
            0,
            "nightly unchanged: it is not suspended\n",
        ),
        (
            "schedule trigger broken",
            2,
            "broken: spec.templateRef: there is no RunTemplate none",
        ),
        (
            "schedule trigger none",
            2,
            r#"runschedules.run-operator.dev "none" not found"#,
        ),
        (
            "why schedule/nightly",
            0,
            "nightly: not seen by an operator yet for",
        ),
    ];
    each_says(&world, &commands).await;
    assert!(runs(&world, "list -o name").await.ok().is_empty());
    let out = runs(&world, "schedule trigger nightly -o json").await.ok();
    let run: Value = serde_json::from_str(&out).unwrap();
    let name = run["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("nightly-"), "{name}");
    assert_eq!(run["metadata"]["ownerReferences"][0]["name"], "nightly");
    assert_eq!(run["spec"]["workload"]["image"], "i");
    let why = runs(&world, &format!("why {name}")).await.ok();
    says(&why, &["By RunSchedule nightly, triggered by a person.\n"]);
}

/// Proves: K-change
#[tokio::test]
async fn what_the_user_may_not_do_with_schedules_is_said_in_kubectls_words() {
    let world = desk().await;
    let rule =
        json!([{"apiGroups": ["run-operator.dev"], "resources": ["runs"], "verbs": ["get"]}]);
    let kubeconfig = world.user("without-schedules", &rule).await;
    for words in [
        "schedule list",
        "schedule suspend nightly",
        "schedule trigger nightly",
        "why schedule/nightly",
    ] {
        let told = started(&world, &kubeconfig, words, "").end().await;
        let forbidden = "Error from server (Forbidden): runschedules.run-operator.dev";
        says(&told.ended(2), &[forbidden]);
    }
}
