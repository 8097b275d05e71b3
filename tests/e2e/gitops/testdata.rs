//! Argo CD's testdata, recorded from real objects: `RUN_OPERATOR_RECORD=1` writes it, and without that the live
//! objects are compared with it, so that it can't go stale.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::condition_cases::{Situation, Told};
use super::tools::file;

const HEADER: &str =
    "# Recorded by RUN_OPERATOR_RECORD=1 cargo test --test e2e gitops::conditions. Do not edit.\n";
const NOW: &str = "2026-01-01T00:00:00Z";
const UUID: &str = "00000000-0000-4000-8000-000000000000";

/// Compares each object with its recording, or records it. Gives back what differs.
pub(super) fn compare_or_record(seen: &[(Situation, Value)], namespace: &str) -> Vec<String> {
    let recording = std::env::var_os("RUN_OPERATOR_RECORD").is_some();
    let mut differences = Vec::new();
    for (situation, object) in seen {
        let path = folder(situation.kind).join(format!("testdata/{}.yaml", situation.name));
        let object = normal(object, namespace);
        if recording {
            write(&path, &object);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let recorded: Value = serde_saphyr::from_str(&text).unwrap_or_default();
        if shape(&recorded) != shape(&object) {
            differences.push(format!(
                "{} is recorded as {:#}\nand is now {:#}",
                path.display(),
                shape(&recorded),
                shape(&object)
            ));
        }
    }
    if recording {
        write_tests(seen, namespace);
    }
    differences
}

/// The message that Argo CD should show.
pub(super) fn message(situation: &Situation, object: &Value) -> String {
    let of = |kind: &str| {
        let all = object["status"]["conditions"].as_array();
        let mut all = all.into_iter().flatten();
        let found = all.find(|condition| condition["type"] == kind);
        let found = found.unwrap_or_else(|| panic!("no {kind} in {object:#}"));
        found["message"].as_str().unwrap().to_owned()
    };
    match situation.told {
        Told::By(kind) => of(kind),
        Told::Deleting => format!("Being deleted: {}", of("Ready")),
        Told::Own(text) => text.to_owned(),
    }
}

fn folder(kind: &str) -> PathBuf {
    file("deploy/argocd/resource_customizations/run-operator.dev").join(kind)
}

fn write(path: &PathBuf, value: &Value) {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(value, options).unwrap();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("{HEADER}{text}")).unwrap();
}

/// `health_test.yaml` and `action_test.yaml` of a kind, with what the table expects.
fn write_tests(seen: &[(Situation, Value)], namespace: &str) {
    let (mut health, mut discovery, mut acts) = (Vec::new(), Vec::new(), BTreeMap::new());
    let kind = seen[0].0.kind;
    for (situation, object) in seen {
        let object = normal(object, namespace);
        let input = format!("testdata/{}.yaml", situation.name);
        let told = message(situation, &object);
        let status = json!({"status": situation.argo, "message": told});
        health.push(json!({"inputPath": input, "healthStatus": status}));
        let offered: Vec<Value> = situation
            .actions
            .iter()
            .map(|name| shown(kind, name))
            .collect();
        discovery.push(json!({"inputPath": format!("../{input}"), "result": offered}));
        for name in situation.actions {
            acts.entry(*name).or_insert_with(|| {
                let output = format!("testdata/{}-{name}.yaml", situation.name);
                write(&folder(kind).join("actions").join(&output), &after(name, object.clone()));
                json!({"action": name, "inputPath": format!("../{input}"), "expectedOutputPath": output})
            });
        }
    }
    write(
        &folder(kind).join("health_test.yaml"),
        &json!({"tests": health}),
    );
    let acts: Vec<Value> = acts.into_values().collect();
    let tests = json!({"discoveryTests": discovery, "actionTests": acts});
    write(&folder(kind).join("actions/action_test.yaml"), &tests);
}

/// The output for an action.
fn shown(kind: &str, name: &str) -> Value {
    let (title, icon) = match (kind, name) {
        (_, "cancel") => ("Cancel the run", "stop"),
        (_, "retry") => ("Submit once more", "redo"),
        ("Run", "suspend") => ("Hold the submission", "pause"),
        ("Run", "resume") => ("Submit the run", "play"),
        (_, "suspend") => ("Hold new Runs", "pause"),
        (_, "resume") => ("Submit new Runs again", "play"),
        _ => panic!("no action {name}"),
    };
    json!({"name": name, "displayName": title, "iconClass": format!("fa fa-fw fa-{icon}")})
}

/// An object after an action.
fn after(name: &str, mut object: Value) -> Value {
    match name {
        "cancel" => object["spec"]["cancel"] = json!(true),
        "suspend" => object["spec"]["suspend"] = json!(true),
        "resume" => object["spec"]["suspend"] = json!(false),
        "retry" => object["metadata"]["annotations"]["run-operator.dev/retry"] = json!(NOW),
        _ => panic!("no action {name}"),
    }
    object
}

/// An object without the parts that differ at each run: times, ids, ports, and the fields that only the API
/// server sets.
fn normal(object: &Value, namespace: &str) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("managedFields");
    metadata.remove("resourceVersion");
    texts(&mut object, &|text| {
        tidy(&text.replace(namespace, "team-a"))
    });
    object
}

fn texts(value: &mut Value, change: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| texts(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|field| texts(field, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Puts fixed words in the place of ids, times and addresses.
fn tidy(text: &str) -> String {
    let mut tidied = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (word, length) = varying(rest).unwrap_or_else(|| (first.to_string(), first.len_utf8()));
        tidied.push_str(&word);
        rest = &rest[length..];
    }
    tidied
}

/// If a text begins with something that varies: what to put there, and how long it is.
fn varying(text: &str) -> Option<(String, usize)> {
    let is_uuid = |t: &str| uuid::Uuid::try_parse(t).is_ok();
    if text.get(..36).is_some_and(is_uuid) {
        return Some((UUID.to_owned(), 36));
    }
    if text.starts_with("http://127.0.0.1:") {
        let length = text.find("/api/v1").unwrap_or(text.len());
        return Some(("https://runs.example.com".to_owned(), length));
    }
    if text.starts_with("20") {
        let end = text.find('Z').map(|at| at + 1)?;
        let time = text.get(..end)?.parse::<jiff::Timestamp>();
        return time.ok().map(|_| (NOW.to_owned(), end));
    }
    for prefix in ["run_", "req_"] {
        if let Some(id) = text.strip_prefix(prefix) {
            let end = id
                .find(|c: char| !c.is_ascii_hexdigit())
                .unwrap_or(id.len());
            return (end > 4).then(|| (format!("{prefix}0123456789abcdef"), prefix.len() + end));
        }
    }
    None
}

/// The parts that must not change: the set of fields, and the words that scripts rely on.
fn shape(value: &Value) -> Value {
    const WORDS: [&str; 8] = [
        "apiVersion",
        "kind",
        "name",
        "phase",
        "reason",
        "state",
        "status",
        "type",
    ];
    const COUNTS: [&str; 2] = ["generation", "observedGeneration"];
    // How many events came until the object was recorded is chance; what was tried, too.
    const CHANCE: [&str; 6] = [
        "eventCount",
        "events",
        "lastError",
        "lastEventId",
        "requestId",
        "startTime",
    ];
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| !CHANCE.contains(&key.as_str()))
            .map(|(key, field)| {
                let kept = (field.is_string() && WORDS.contains(&key.as_str()))
                    || COUNTS.contains(&key.as_str());
                (key.clone(), if kept { field.clone() } else { shape(field) })
            })
            .collect(),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::String(_) => "text".into(),
        Value::Number(_) => "number".into(),
        Value::Bool(_) | Value::Null => value.clone(),
    }
}
