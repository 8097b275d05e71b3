//! Provenance: an in-toto statement with SLSA's predicate, about every file and image of a release. It has no time but
//! the commit's, so that the same commit gives the same statement.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use run_operator::util::sha256;
use serde_json::{Map, Value, json};

use super::image;
use crate::common::{Outcome, read_bytes, write};

/// Names the meaning of `externalParameters`: docs/release.md describes them.
const BUILD_TYPE: &str = "https://run-operator.dev/release/v1";

/// What was made, from what, and by whom.
#[derive(Args)]
pub(crate) struct Options {
    /// The release's version.
    #[arg(long)]
    version: String,
    /// The commit.
    #[arg(long)]
    commit: String,
    /// The commit's time, in seconds since 1970.
    #[arg(long, value_name = "SECONDS")]
    epoch: i64,
    /// Who built it: a URI that the verifier knows.
    #[arg(long, value_name = "URI")]
    builder: String,
    /// The builder's name of this build; the same build has the same.
    #[arg(long, value_name = "URI")]
    invocation: Option<String>,
    /// The repository.
    #[arg(long, value_name = "URL")]
    source: Option<String>,
    /// What the build was called with: `NAME=VALUE`. Those without a value are left out.
    #[arg(long = "parameter", value_name = "NAME=VALUE")]
    parameters: Vec<String>,
    /// What it was built with: `NAME=VERSION`.
    #[arg(long = "tool", value_name = "NAME=VERSION")]
    tools: Vec<String>,
    /// The images: `NAME@DIGEST`.
    #[arg(long = "image", value_name = "NAME@DIGEST")]
    images: Vec<String>,
    /// Where the statement is written.
    #[arg(long)]
    output: PathBuf,
    /// Where its predicate is written without the statement, as cosign attests it.
    #[arg(long)]
    predicate: PathBuf,
    /// The files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Writes the statement, and its predicate.
pub(super) fn run(options: &Options) -> Outcome<()> {
    let mut subjects = Vec::new();
    for path in &options.files {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let sha256 = sha256(&read_bytes(path)?);
        subjects.push(json!({"name": name, "digest": {"sha256": sha256}}));
    }
    for text in &options.images {
        let (name, digest) = image(text)?;
        let sha256 = digest.trim_start_matches("sha256:");
        subjects.push(json!({"name": name, "digest": {"sha256": sha256}}));
    }
    let predicate = predicate(options)?;
    write(&options.predicate, format!("{predicate:#}\n"))?;
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": predicate,
    });
    write(&options.output, format!("{statement:#}\n"))
}

fn predicate(options: &Options) -> Outcome<Value> {
    let time = Timestamp::from_second(options.epoch);
    let time = time.map_err(|error| format!("the time {}: {error}", options.epoch))?;
    let mut parameters = pairs(&options.parameters);
    parameters.insert("version".to_owned(), options.version.as_str().into());
    let mut commit = json!({"name": "run-operator", "digest": {"gitCommit": options.commit}});
    if let Some(source) = &options.source {
        let source = source.trim_end_matches('/');
        commit["uri"] = format!("git+{source}@refs/tags/v{}", options.version).into();
    }
    let mut metadata = json!({"startedOn": time, "finishedOn": time});
    if let Some(invocation) = &options.invocation {
        metadata["invocationId"] = invocation.as_str().into();
    }
    Ok(json!({
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": parameters,
            "internalParameters": pairs(&options.tools),
            "resolvedDependencies": [commit],
        },
        "runDetails": {"builder": {"id": options.builder}, "metadata": metadata},
    }))
}

fn pairs(given: &[String]) -> Map<String, Value> {
    let pairs = given.iter().filter_map(|pair| pair.split_once('='));
    let pairs = pairs.filter(|(_, value)| !value.is_empty());
    pairs
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect()
}
