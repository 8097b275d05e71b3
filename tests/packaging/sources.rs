//! The chart's own files against each other, and against the program.

// The binary's flags, as the binary itself reads them.
#[allow(
    dead_code,
    unused_imports,
    reason = "only what clap knows of the flags is asked for here, not what they are parsed into"
)]
#[path = "../../src/cli.rs"]
mod cli;

use std::collections::BTreeSet;

use clap::CommandFactory;
use serde_json::{Value, json};

use crate::helm::{self, ci, texts, with_file};
use crate::namespace::Space;

fn read(path: &str) -> String {
    std::fs::read_to_string(helm::chart().join(path)).unwrap()
}

/// Every value of the schema below this path, with dots.
fn values(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    match schema["properties"].as_object() {
        None => drop(found.insert(path.to_owned())),
        Some(fields) => {
            for (name, below) in fields {
                let path = format!("{path}.{name}");
                values(below, path.trim_start_matches('.'), found);
            }
        }
    }
}

/// The names below `.Values` in the templates.
fn used() -> BTreeSet<String> {
    let folders = ["templates", "templates/crds", "templates/tests"];
    let files = folders.map(|folder| std::fs::read_dir(helm::chart().join(folder)).unwrap());
    let paths = files.into_iter().flatten().map(|file| file.unwrap().path());
    let files = paths.filter(|path| path.is_file());
    let text: String = files
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
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
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let (mut given, used) = (BTreeSet::new(), used());
    values(&schema, "", &mut given);
    // Only for parent charts.
    assert!(given.remove("enabled"));
    let within = |inner: &str, outer: &str| {
        let below = inner.strip_prefix(outer);
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let unused = given.iter().filter(|v| !used.iter().any(|u| within(v, u)));
    assert_eq!(unused.collect::<Vec<_>>(), [""; 0], "no template uses them");
    let missing = used.iter();
    let missing = missing.filter(|u| !given.iter().any(|v| within(v, u) || within(u, v)));
    assert_eq!(
        missing.collect::<Vec<_>>(),
        [""; 0],
        "values.yaml lacks them"
    );
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
        assert_eq!(args[0], "check");
        cli::Cli::command()
            .try_get_matches_from(["run-operator"].iter().chain(&args))
            .unwrap();
    }
}

/// An annotation of Artifact Hub's, parsed.
fn annotation(name: &str) -> Vec<Value> {
    let chart: Value = serde_saphyr::from_str(&read("Chart.yaml")).unwrap();
    let text = chart["annotations"][format!("artifacthub.io/{name}")].as_str();
    serde_saphyr::from_str(text.unwrap()).unwrap()
}

/// Proves: I-release
#[test]
fn the_artifact_hub_annotations_are_true() {
    let crds = annotation("crds");
    let told = crds
        .iter()
        .map(|crd| json!([crd["name"], crd["kind"], crd["version"]]));
    let ours = helm::documents(&run_operator::api::crd::yaml().unwrap());
    let ours = helm::of_kind(&ours, "CustomResourceDefinition").into_iter();
    let ours = ours.map(|crd| {
        let (name, spec) = (&crd["metadata"]["name"], &crd["spec"]);
        json!([name, spec["names"]["kind"], spec["versions"][0]["name"]])
    });
    assert!(told.eq(ours), "{crds:?}");
    let kinds = |all: &[Value]| -> Vec<Value> { all.iter().map(|o| o["kind"].clone()).collect() };
    assert_eq!(kinds(&annotation("crdsExamples")), kinds(&crds));
}

/// Proves: I-release
#[tokio::test]
async fn the_api_server_takes_the_examples_on_artifact_hub() {
    let space = Space::new().await;
    let list = json!({"apiVersion": "v1", "kind": "List", "items": annotation("crdsExamples")});
    let create = ["create", "--dry-run=server", "--validate=strict", "-f", "-"];
    let made = space.kubectl(&create, &list.to_string()).unwrap();
    assert_eq!(made.lines().count(), 5, "{made}");
}

/// Proves: I-values
#[test]
fn helm_finds_nothing_to_complain_of() {
    let there = std::fs::read_dir(helm::chart().join("ci")).unwrap().count();
    assert_eq!(helm::CI.len(), there, "a file of ci/ is not tried");
    for file in helm::CI.map(ci) {
        let mut lint = helm::command();
        lint.args(["lint", "--strict", "-f", &file]);
        let told = helm::done(&lint.arg(helm::chart()).output().unwrap());
        assert!(!told.contains("[WARNING]"), "{file}: {told}");
    }
}
