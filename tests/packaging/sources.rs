//! The chart's own files against each other, and against the program.

// The binary's flags, as the binary itself reads them.
#[allow(
    dead_code,
    unused_imports,
    reason = "only what clap knows of the flags is asked for here, not what they are parsed into"
)]
#[path = "../../src/cli/mod.rs"]
mod cli;

use std::collections::BTreeSet;

use clap::CommandFactory;
use serde_json::{Value, json};

use crate::helm::{self, ci, texts, with_file};
use crate::namespace::Space;

fn read(path: &str) -> String {
    std::fs::read_to_string(helm::chart().join(path)).unwrap()
}

/// Every key of `values.yaml` and of the schema, with dots.
fn keys(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        if below["properties"].is_object() {
            keys(below, &path, found);
        } else {
            found.insert(path);
        }
    }
}

fn values() -> BTreeSet<String> {
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let mut found = BTreeSet::new();
    keys(&schema, "", &mut found);
    found
}

/// The names below `.Values` in the templates.
fn used() -> BTreeSet<String> {
    let mut text = String::new();
    let folders = ["templates", "templates/crds", "templates/tests"];
    for file in folders
        .iter()
        .flat_map(|f| std::fs::read_dir(helm::chart().join(f)).unwrap())
    {
        let path = file.unwrap().path();
        if path.is_file() {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    let names = text.split(".Values.").skip(1);
    let name = |rest: &str| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.');
        rest[..end.unwrap_or(rest.len())]
            .trim_end_matches('.')
            .to_owned()
    };
    names.map(name).collect()
}

/// Proves: I-values
#[test]
fn every_value_is_used_and_every_used_one_is_there() {
    let (values, used) = (values(), used());
    let within =
        |inner: &str, outer: &str| inner == outer || inner.starts_with(&format!("{outer}."));
    // Only for parent charts; and reached by `.Values.global | default dict`.
    let unread = ["enabled"];
    let unused: Vec<_> = values
        .iter()
        .filter(|v| !unread.contains(&v.as_str()) && !used.iter().any(|u| within(v, u)))
        .collect();
    assert!(unused.is_empty(), "no template uses {unused:?}");
    let missing: Vec<_> = used
        .iter()
        .filter(|u| !values.iter().any(|v| within(v, u) || within(u, v)))
        .collect();
    assert!(missing.is_empty(), "values.yaml lacks {missing:?}");
}

/// Proves: I-values
#[test]
fn every_flag_has_a_value() {
    let command = cli::Cli::command();
    let controller = command.find_subcommand("controller").unwrap();
    let flags = controller.get_arguments().filter_map(clap::Arg::get_long);
    let flags: BTreeSet<&str> = flags.filter(|flag| *flag != "help").collect();
    let objects = with_file("full");
    let args = helm::args(&objects);
    assert_eq!(args[0], "controller");
    let given = args[1..].iter().map(|arg| arg.trim_start_matches("--"));
    let given: BTreeSet<&str> = given.map(|arg| arg.split('=').next().unwrap()).collect();
    assert_eq!(given, flags);
    cli::Cli::command()
        .try_get_matches_from(["run-operator"].iter().chain(&args))
        .unwrap();
}

/// Proves: I-doctor
#[test]
fn the_pod_of_helm_test_has_arguments_that_the_program_knows() {
    for values in ["default", "full"] {
        let objects = with_file(values);
        let args = texts(&helm::the(&objects, "Pod")["spec"]["containers"][0]["args"]);
        assert_eq!(args[0], "doctor");
        cli::Cli::command()
            .try_get_matches_from(["run-operator"].iter().chain(&args))
            .unwrap();
    }
}

/// Proves: I-artifact-hub
#[test]
fn the_chart_has_the_program_s_version() {
    let chart: Value = serde_saphyr::from_str(&read("Chart.yaml")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(chart["version"], version);
    assert_eq!(chart["appVersion"], version);
    let images = chart["annotations"]["artifacthub.io/images"]
        .as_str()
        .unwrap();
    assert!(
        images.contains(&format!("image: run-operator:{version}")),
        "{images}"
    );
}

/// An annotation of Artifact Hub's, parsed.
fn annotation(name: &str) -> Vec<Value> {
    let chart: Value = serde_saphyr::from_str(&read("Chart.yaml")).unwrap();
    let text = chart["annotations"][format!("artifacthub.io/{name}")].as_str();
    serde_saphyr::from_str(text.unwrap()).unwrap()
}

/// Proves: I-artifact-hub
#[test]
fn the_artifact_hub_annotations_are_true() {
    let field = |value: &Value| value.as_str().unwrap().to_owned();
    let crds: Vec<[String; 3]> = annotation("crds")
        .iter()
        .map(|crd| ["name", "kind", "version"].map(|name| field(&crd[name])))
        .collect();
    let ours = helm::documents(&run_operator::api::crd::yaml().unwrap());
    let ours: Vec<[String; 3]> = helm::of_kind(&ours, "CustomResourceDefinition")
        .iter()
        .map(|crd| {
            let spec = &crd["spec"];
            let (name, version) = (&crd["metadata"]["name"], &spec["versions"][0]["name"]);
            [name, &spec["names"]["kind"], version].map(field)
        })
        .collect();
    assert_eq!(crds, ours);
    let examples = annotation("crdsExamples");
    let examples: Vec<String> = examples.iter().map(|e| field(&e["kind"])).collect();
    let kinds: Vec<&String> = crds.iter().map(|[_, kind, _]| kind).collect();
    assert_eq!(examples.iter().collect::<Vec<_>>(), kinds);
}

/// Proves: I-artifact-hub
#[tokio::test]
async fn the_api_server_takes_the_examples_on_artifact_hub() {
    let space = Space::new().await;
    let list = json!({"apiVersion": "v1", "kind": "List", "items": annotation("crdsExamples")});
    let create = ["create", "--dry-run=server", "--validate=strict", "-f", "-"];
    let made = space.kubectl(&create, &list.to_string()).unwrap();
    assert_eq!(made.lines().count(), 3, "{made}");
}

/// Proves: I-values
#[test]
fn helm_finds_nothing_to_complain_of() {
    let mut files: Vec<String> = helm::CI.map(ci).into();
    let there = std::fs::read_dir(helm::chart().join("ci")).unwrap().count();
    assert_eq!(files.len(), there, "a file of ci/ is not tried");
    for file in files.drain(..) {
        let mut command = helm::command();
        let linted = command
            .args(["lint", "--strict", "-f", &file])
            .arg(helm::chart())
            .output();
        let told = helm::done(&linted.unwrap());
        assert!(!told.contains("[WARNING]"), "{file}: {told}");
    }
}
