//! `submit`: creates a Run from a file, from flags or from a RunTemplate, and finds the one that the same command made
//! before.

use std::io::Read;
use std::path::Path;

use kube::Resource;
use serde_json::{Map, Value, json};

use run_operator::api::names;
use run_operator::checks::{Refused, bounded};
use run_operator::decide::schedule::manifest;
use run_operator::util::sha256;

use crate::args::{DryRun, Goal, SubmitArgs};
use crate::cluster::Cluster;
use crate::error::{End, ToolError};
use crate::run::Run;
use crate::wait::Wait;
use crate::{PROGRAM, print, template, wait};

/// The beginning of a generated name.
const PREFIX: &str = "run-";
/// Characters of a key's hash in a name: enough that the keys of a namespace don't meet.
const HASHED: usize = 16;
/// Kubernetes' own alphabet for random names: no vowels, and nothing that looks like something else.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// What makes a run the one that was asked for, and can't be edited, each with its default. The rest may have been edited,
/// as by a cancellation.
const FIXED: [(&str, Option<&str>); 6] = [
    ("workload", None),
    ("provider", Some(names::AUTO)),
    ("region", Some(names::AUTO)),
    ("workspaceRef", None),
    ("idempotencyKey", None),
    ("managedBy", Some(names::MANAGED_BY)),
];

pub(crate) async fn run(cluster: &Cluster, args: &SubmitArgs) -> Result<End, ToolError> {
    let object = match (&args.filename, &args.template) {
        (Some(file), _) => from_file(file)?,
        (None, Some(template)) => from_template(cluster, template, &args.set).await?,
        (None, None) => from_flags(args.image.as_deref().unwrap_or_default(), &args.set)?,
    };
    let object = complete(object, args)?;
    let cluster = place(cluster, &object)?;
    if args.dry_run == Some(DryRun::Client) {
        return dry_run(&cluster, object, args);
    }
    let on_server = args.dry_run.is_some();
    let (run, became) = match create(&cluster, object.to_string(), on_server).await {
        Ok(run) if on_server => (run, "created (server dry run)"),
        Ok(run) => (run, "created"),
        Err(error) => (
            found(&cluster, &object, error).await?,
            "unchanged: it was submitted before, with this key",
        ),
    };
    if args.wait && args.output.is_some() {
        // Standard output is for the object at its end.
        eprintln!("{} {became}", run.reference());
    } else {
        print::object(&run, args.output, became)?;
    }
    let wait = Wait {
        goal: Goal::Succeeded,
        timeout: args.timeout,
        output: args.output,
        events: args.follow,
    };
    if args.wait || args.follow {
        wait::one(&cluster, run, wait).await
    } else {
        Ok(End::Succeeded)
    }
}

/// The one Run in a file.
fn from_file(file: &Path) -> Result<Value, ToolError> {
    let shown = file.display();
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|error| ToolError::Read(shown.to_string(), error))?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
        .map_err(|error| ToolError::usage(format!("{shown} is no YAML or JSON: {error}")))?;
    let mut documents = documents.into_iter().filter(|object| !object.is_null());
    let (Some(object), None) = (documents.next(), documents.next()) else {
        let wrong = format!(
            "{shown} must have one Run; `kubectl create -f` takes several objects, or none"
        );
        return Err(ToolError::usage(wrong));
    };
    let expected = format!("{}/{}", names::GROUP, names::VERSION);
    let word = |field: &str| object[field].as_str().unwrap_or("(none)");
    if (word("apiVersion"), word("kind")) == (&expected, "Run") {
        return Ok(object);
    }
    Err(ToolError::usage(format!(
        "{shown} has a {} {}; only {expected} Run can be submitted",
        word("apiVersion"),
        word("kind")
    )))
}

fn from_flags(image: &str, set: &[String]) -> Result<Value, ToolError> {
    let mut workload = Map::new();
    workload.insert("image".to_owned(), image.into());
    for assignment in set {
        assign(&mut workload, assignment)
            .map_err(|wrong| ToolError::usage(format!("--set {assignment}: {wrong}")))?;
    }
    Ok(json!({
        "apiVersion": format!("{}/{}", names::GROUP, names::VERSION),
        "kind": "Run",
        "metadata": {},
        "spec": {"workload": workload},
    }))
}

/// A name follows that of the template.
async fn from_template(cluster: &Cluster, name: &str, set: &[String]) -> Result<Value, ToolError> {
    let source = template::source(cluster, name, set).await?;
    let manifest = manifest::of_template(&source).and_then(serde_json::to_value);
    let mut object = manifest.map_err(|error| {
        let wrong = format!("RunTemplate {name}: no Run can be made of it: {error}");
        ToolError::usage(wrong)
    })?;
    object["metadata"]["generateName"] = format!("{name}-").into();
    Ok(object)
}

/// Sets `a.b=value`; `\.` is a dot in a key.
fn assign(workload: &mut Map<String, Value>, assignment: &str) -> Result<(), &'static str> {
    let (path, text) = assignment
        .split_once('=')
        .ok_or("it needs a key, = and a value")?;
    let value = match text {
        "" => Value::String(String::new()),
        text => serde_saphyr::from_str(text).map_err(|_| "the value is no YAML; quote it")?,
    };
    let escaped = path.replace("\\.", "\u{0}");
    let keys = escaped.split('.').map(|key| key.replace('\u{0}', "."));
    let mut keys: Vec<String> = keys.collect();
    if keys.iter().any(String::is_empty) {
        return Err("a key is empty");
    }
    let last = keys.pop().unwrap_or_default();
    let mut fields = workload;
    for key in keys {
        let below = fields.entry(key).or_insert_with(|| json!({}));
        let below = below.as_object_mut();
        fields = below.ok_or("a part of the key has a value of its own already")?;
    }
    match fields.insert(last, value) {
        None => Ok(()),
        Some(_) => Err("it is set already"),
    }
}

/// Adds what the flags say of any Run, and a name: the one that is given, or one that follows from the key, or a random
/// one.
fn complete(mut object: Value, args: &SubmitArgs) -> Result<Value, ToolError> {
    let is_object = |part: &str| object.get(part).is_none_or(Value::is_object);
    if !is_object("metadata") || !is_object("spec") {
        return Err(ToolError::usage("metadata and spec must be objects"));
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(key) = &args.idempotency_key {
        object["spec"]["idempotencyKey"] = key.as_str().into();
    }
    if let Some(priority) = args.priority {
        object["spec"]["priority"] = priority.into();
    }
    if let Some(workspace) = &args.workspace {
        object["spec"]["workspaceRef"] = workspace_ref(workspace)?;
    }
    let own = |field: &str| {
        let text = object["metadata"][field].as_str();
        text.filter(|text| !text.is_empty())
    };
    let prefix = args.generate_name.as_deref();
    let given = own("name").filter(|_| prefix.is_none());
    let made = || {
        let prefix = prefix.or(own("generateName")).unwrap_or(PREFIX);
        let rest: String = if let Some(key) = key(&object) {
            sha256(key.as_bytes()).chars().take(HASHED).collect()
        } else {
            random()
        };
        format!("{prefix}{rest}")
    };
    let name = args.name.as_deref().or(given);
    let name = name.map_or_else(made, str::to_owned);
    object["metadata"]["name"] = name.into();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("generateName");
    }
    Ok(object)
}

/// The end of a name that nobody else has.
pub(crate) fn random() -> String {
    let letters = (0..5).filter_map(|_| fastrand::choice(ALPHABET));
    letters.map(|letter| char::from(*letter)).collect()
}

/// The idempotency key that the Run asks for.
fn key(object: &Value) -> Option<&str> {
    object["spec"]["idempotencyKey"].as_str()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn workspace_ref(text: &str) -> Result<Value, ToolError> {
    match text.split_once('/') {
        None => Ok(json!({"name": text})),
        Some((kind @ ("Workspace" | "ClusterWorkspace"), name)) => {
            Ok(json!({"kind": kind, "name": name}))
        }
        Some((kind, _)) => Err(ToolError::usage(format!(
            "--workspace {text}: {kind} is no kind of a Workspace; write NAME or ClusterWorkspace/NAME"
        ))),
    }
}

/// The namespace of a manifest, which must be the flag's if there is one.
fn place(cluster: &Cluster, object: &Value) -> Result<Cluster, ToolError> {
    let mut cluster = cluster.clone();
    match object["metadata"]["namespace"].as_str() {
        Some(own) if own != cluster.namespace && cluster.is_namespace_given => {
            Err(ToolError::usage(format!(
                "the namespace from the provided object \"{own}\" does not match the namespace \"{}\"; pass --namespace={own}",
                cluster.namespace
            )))
        }
        Some(own) if own != cluster.namespace => {
            own.clone_into(&mut cluster.namespace);
            cluster.is_namespace_given = true;
            Ok(cluster)
        }
        _ => Ok(cluster),
    }
}

/// Prints what would be created.
fn dry_run(cluster: &Cluster, mut object: Value, args: &SubmitArgs) -> Result<End, ToolError> {
    object["metadata"]["namespace"] = cluster.namespace.as_str().into();
    let wrong = |why: &str| ToolError::usage(format!("{}: {why}", name(&object)));
    let run = Run::from_text(&object.to_string()).map_err(|error| wrong(&error.to_string()))?;
    match &run.unreadable {
        Some(why) => Err(wrong(why)),
        None => print::object(&run, args.output, "created (dry run)").map(|()| End::Succeeded),
    }
}

/// Unknown fields are errors, as for kubectl.
pub(crate) async fn create(
    cluster: &Cluster,
    object: String,
    dry_run: bool,
) -> Result<Run, Refused> {
    let path = Run::url_path(&(), Some(&cluster.namespace));
    let dry_run = if dry_run { "&dryRun=All" } else { "" };
    let target = format!("{path}?fieldManager={PROGRAM}&fieldValidation=Strict{dry_run}");
    let request =
        http::Request::post(target).header(http::header::CONTENT_TYPE, "application/json");
    bounded(async {
        let request = request.body(object.into_bytes());
        let request = request.map_err(kube::Error::HttpError)?;
        cluster.client.request(request).await
    })
    .await
}

/// The Run that has the name already, if it is the same one: it has the same key and spec.
async fn found(cluster: &Cluster, object: &Value, error: Refused) -> Result<Run, ToolError> {
    let name = name(object);
    match &error {
        Refused::Status(status) if status.reason == "AlreadyExists" && key(object).is_some() => {}
        _ => return Err(not_created(cluster, name, key(object).is_some(), error)),
    }
    let run = cluster.run(name).await?;
    if run.metadata.deletion_timestamp.is_some() {
        let next = "has this key and is being deleted; submit again when it is gone";
        return Err(ToolError::usage(format!("{name} {next}")));
    }
    let stored: Value = serde_json::from_str(run.text())
        .map_err(|error| ToolError::usage(format!("{name} can't be compared: {error}")))?;
    let in_force = |object: &Value, (field, default): (&str, Option<&str>)| {
        let value = object["spec"].get(field).filter(|value| !value.is_null());
        value.cloned().unwrap_or_else(|| default.into())
    };
    let same = |field| is_same(&in_force(&stored, field), &in_force(object, field));
    if FIXED.into_iter().all(same) {
        return Ok(run);
    }
    Err(ToolError::usage(format!(
        "{name} exists with another workload or place; nothing was submitted. Another run needs another key or name"
    )))
}

/// The error of a creation. Without an answer the Run may have been created.
pub(crate) fn not_created(
    cluster: &Cluster,
    name: &str,
    has_key: bool,
    error: Refused,
) -> ToolError {
    if matches!(&error, Refused::Status(status) if status.code < 500) {
        return error.into();
    }
    let next = if has_key {
        "the same command, repeated, finds it".to_owned()
    } else {
        format!("to find out: {}", cluster.command(&format!("why {name}")))
    };
    let why = error.why();
    ToolError::usage(format!(
        "{why}. Whether {name} was created is not known; {next}"
    ))
}

/// Whether two values ask for the same: the API server makes a 1 of a 1.0.
fn is_same(stored: &Value, wanted: &Value) -> bool {
    match (stored, wanted) {
        (Value::Object(a), Value::Object(b)) => {
            let same = |(key, value)| b.get(key).is_some_and(|other| is_same(value, other));
            a.len() == b.len() && a.iter().all(same)
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}
