//! The Runs that `submit` makes: from a file, or from flags.

use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value, json};

use run_operator::api::names;
use run_operator::util::sha256;

use crate::cli::runs::SubmitArgs;

use super::exit::RunsError;

/// The beginning of a generated name.
const PREFIX: &str = "run-";
/// As many characters as Kubernetes puts behind a `generateName`.
const RANDOM: usize = 5;
/// Characters of a key's hash in a name: enough that the keys of a namespace don't meet.
const HASHED: usize = 16;
/// Kubernetes' own alphabet for random names: no vowels, and nothing that looks like something else.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A Run to be made.
pub(super) struct Manifest {
    /// The object, with a name.
    pub(super) object: Value,
    /// How it got its name.
    pub(super) name: Name,
    /// The namespace that it names itself.
    pub(super) namespace: Option<String>,
}

/// How a Run got its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// It was given.
    Given(String),
    /// It follows from the idempotency key.
    OfKey(String),
    /// It is random, behind this prefix.
    Random { prefix: String, name: String },
}

impl Name {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Given(name) | Self::OfKey(name) | Self::Random { name, .. } => name,
        }
    }
}

impl Manifest {
    /// The idempotency key that the Run asks for.
    pub(super) fn key(&self) -> Option<&str> {
        self.object.pointer("/spec/idempotencyKey")?.as_str()
    }

    /// Another random name, for one that is taken; false if the name was not random.
    pub(super) fn rename(&mut self) -> bool {
        let Name::Random { prefix, .. } = &self.name else {
            return false;
        };
        self.name = random(prefix);
        let name = self.name.text().to_owned();
        self.object["metadata"]["name"] = Value::String(name);
        true
    }
}

/// What the flags ask for.
pub(super) fn of(args: &SubmitArgs) -> Result<Vec<Manifest>, RunsError> {
    let mut objects = match (&args.filename, &args.image) {
        (Some(file), _) => documents(file)?,
        (None, Some(image)) => vec![from_flags(image, &args.set)?],
        (None, None) => return Err(usage("either --filename or --image is needed")),
    };
    if objects.len() > 1 {
        let single = [
            ("--name", args.name.is_some()),
            ("--generate-name", args.generate_name.is_some()),
            ("--idempotency-key", args.idempotency_key.is_some()),
            ("--follow", args.follow),
        ];
        if let Some((flag, _)) = single.iter().find(|(_, given)| *given) {
            let count = objects.len();
            return Err(usage(&format!(
                "{flag} is for one Run, and the file has {count}"
            )));
        }
    }
    objects
        .drain(..)
        .map(|object| complete(object, args))
        .collect()
}

fn usage(message: &str) -> RunsError {
    RunsError::Usage(message.to_owned())
}

/// The Runs in a file; a List stands for its items.
fn documents(file: &Path) -> Result<Vec<Value>, RunsError> {
    let shown = file.display().to_string();
    let text = read(file).map_err(|source| RunsError::Read {
        file: shown.clone(),
        source,
    })?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
        .map_err(|error| usage(&format!("{shown} is no YAML or JSON: {error}")))?;
    let items = documents.into_iter().flat_map(|document| {
        let is_list = document["kind"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("List"));
        match document {
            Value::Object(mut fields) if is_list => match fields.remove("items") {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            },
            Value::Null => Vec::new(),
            other => vec![other],
        }
    });
    let runs: Vec<Value> = items.collect();
    let expected = format!("{}/{}", names::GROUP, names::VERSION);
    for (number, run) in runs.iter().enumerate() {
        let word = |field: &str| run[field].as_str().unwrap_or("(none)").to_owned();
        if word("kind") != "Run" || word("apiVersion") != expected {
            let number = number + 1;
            return Err(usage(&format!(
                "{shown}: object {number} is {} {}; only {expected} Run can be submitted",
                word("apiVersion"),
                word("kind")
            )));
        }
    }
    if runs.is_empty() {
        return Err(usage(&format!("{shown} has no Run")));
    }
    Ok(runs)
}

fn read(file: &Path) -> std::io::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        Ok(text)
    } else {
        std::fs::read_to_string(file)
    }
}

fn from_flags(image: &str, set: &[String]) -> Result<Value, RunsError> {
    let mut workload = Map::new();
    workload.insert("image".to_owned(), image.into());
    for assignment in set {
        assign(&mut workload, assignment)
            .map_err(|wrong| usage(&format!("--set {assignment}: {wrong}")))?;
    }
    Ok(json!({
        "apiVersion": format!("{}/{}", names::GROUP, names::VERSION),
        "kind": "Run",
        "metadata": {},
        "spec": {"workload": workload},
    }))
}

/// Sets `a.b=value`; `\.` is a dot in a key.
fn assign(workload: &mut Map<String, Value>, assignment: &str) -> Result<(), String> {
    let Some((path, text)) = assignment.split_once('=') else {
        return Err("it needs a key, = and a value".to_owned());
    };
    let value: Value = if text.is_empty() {
        Value::String(String::new())
    } else {
        serde_saphyr::from_str(text).map_err(|_| "the value is no YAML; quote it".to_owned())?
    };
    let escaped = path.replace("\\.", "\u{0}");
    let mut keys = escaped
        .split('.')
        .map(|key| key.replace('\u{0}', "."))
        .peekable();
    let mut fields = workload;
    while let Some(key) = keys.next() {
        if key.is_empty() {
            return Err("a key is empty".to_owned());
        }
        if keys.peek().is_none() {
            return match fields.insert(key, value) {
                None => Ok(()),
                Some(_) => Err("it is set already".to_owned()),
            };
        }
        let below = fields
            .entry(key)
            .or_insert_with(|| Value::Object(Map::new()));
        let Some(below) = below.as_object_mut() else {
            return Err("a part of the key has a value of its own already".to_owned());
        };
        fields = below;
    }
    Ok(())
}

/// Adds what the flags say of any Run, and a name.
fn complete(mut object: Value, args: &SubmitArgs) -> Result<Manifest, RunsError> {
    let fields = object.as_object_mut();
    let Some(fields) = fields.filter(|fields| {
        let is_object = |name: &str| fields.get(name).is_none_or(Value::is_object);
        is_object("metadata") && is_object("spec")
    }) else {
        return Err(usage("metadata and spec must be objects"));
    };
    fields.remove("status");
    let spec = fields.entry("spec").or_insert_with(|| json!({}));
    if let Some(key) = &args.idempotency_key {
        spec["idempotencyKey"] = Value::String(key.clone());
    }
    if let Some(workspace) = &args.workspace {
        spec["workspaceRef"] = workspace_ref(workspace)?;
    }
    let key = spec["idempotencyKey"].as_str().map(str::to_owned);
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    let name = name(metadata, key.as_deref(), args);
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("generateName");
        metadata.insert("name".to_owned(), name.text().into());
    }
    let namespace = metadata["namespace"].as_str().map(str::to_owned);
    Ok(Manifest {
        object,
        name,
        namespace,
    })
}

fn workspace_ref(text: &str) -> Result<Value, RunsError> {
    match text.split_once('/') {
        None => Ok(json!({"name": text})),
        Some((kind @ ("Workspace" | "ClusterWorkspace"), name)) => {
            Ok(json!({"kind": kind, "name": name}))
        }
        Some((kind, _)) => Err(usage(&format!(
            "--workspace {text}: {kind} is no kind of a Workspace; write NAME or ClusterWorkspace/NAME"
        ))),
    }
}

/// The name that is given, or follows from the key, or is random.
fn name(metadata: &Value, key: Option<&str>, args: &SubmitArgs) -> Name {
    let own = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty());
    let prefix = args.generate_name.as_deref();
    if let Some(name) = args
        .name
        .as_deref()
        .or(own("name").filter(|_| prefix.is_none()))
    {
        return Name::Given(name.to_owned());
    }
    let prefix = prefix.or(own("generateName")).unwrap_or(PREFIX);
    match key {
        Some(key) => {
            let hash = sha256(key.as_bytes());
            let hash: String = hash.chars().take(HASHED).collect();
            Name::OfKey(format!("{prefix}{hash}"))
        }
        None => random(prefix),
    }
}

fn random(prefix: &str) -> Name {
    let random = uuid::Uuid::new_v4();
    let letters = random.as_bytes().iter().take(RANDOM);
    let letters = letters.filter_map(|byte| ALPHABET.get(usize::from(*byte) % ALPHABET.len()));
    let letters: String = letters.map(|letter| char::from(*letter)).collect();
    Name::Random {
        prefix: prefix.to_owned(),
        name: format!("{prefix}{letters}"),
    }
}
