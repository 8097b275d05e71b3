//! The chart as it is released: a copy of the repository's, with the registry, the image's digest, the project's
//! addresses and Artifact Hub's annotations. It is packed by the real Helm, whose archive has the time of
//! `SOURCE_DATE_EPOCH`.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use test_cluster::run as run_program;
use test_support::root;

use super::{changelog, image};
use crate::common::{Outcome, below, read, read_bytes, read_yaml, write, yaml};
use crate::generate;

/// The chart, in the repository and in the registry.
const CHART: &str = "charts/run-operator";
/// The repository, as the chart's README writes it in its links.
const ROOT: &str = "../../";

/// The release, and where it is published.
#[derive(Args)]
pub(crate) struct Options {
    /// The release's version: the chart's own must be the same.
    #[arg(long)]
    version: String,
    /// The time of the archive's files, in seconds since 1970.
    #[arg(long, value_name = "SECONDS")]
    epoch: i64,
    /// The registry, and the path in it, that the images are published to. Without it the image has neither registry
    /// nor digest.
    #[arg(long, value_name = "HOST/PATH")]
    registry: Option<String>,
    /// The operator's image.
    #[arg(long, value_name = "NAME@DIGEST")]
    image: String,
    /// An architecture of the image, such as linux/amd64.
    #[arg(long = "platform", value_name = "OS/ARCHITECTURE")]
    platforms: Vec<String>,
    /// The project's page.
    #[arg(long, value_name = "URL")]
    home: Option<String>,
    /// The repository.
    #[arg(long, value_name = "URL")]
    source: Option<String>,
    /// The chart's icon.
    #[arg(long, value_name = "URL")]
    icon: Option<String>,
    /// Who maintains the chart: a name, or NAME:EMAIL.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    maintainers: Vec<String>,
    /// The folder for the copy, `run-operator`, and its archive, `run-operator-VERSION.tgz`.
    #[arg(long)]
    output: PathBuf,
}

/// Makes the copy, and packs it.
pub(super) fn run(options: &Options) -> Outcome<()> {
    let copy = options.output.join("run-operator");
    let chart = root().join(CHART);
    for file in below(&chart)? {
        let name = file.strip_prefix(&chart).unwrap_or(&file);
        write(&copy.join(name), read_bytes(&file)?)?;
    }
    let file = copy.join("Chart.yaml");
    let mut chart = read_yaml(&file)?;
    describe(&mut chart, options)?;
    write(&file, yaml(&chart)?)?;
    if let Some(registry) = &options.registry {
        let values = copy.join("values.yaml");
        let text = with_image(&read(&values)?, registry, image(&options.image)?.1)?;
        write(&values, text)?;
        // The schema and the README state the defaults.
        for (name, text) in generate::values_of(&copy)? {
            write(&copy.join(name), text)?;
        }
    }
    let file = copy.join("README.md");
    write(&file, readme(&read(&file)?, options))?;
    let mut helm = generate::helm()?;
    helm.arg("package").arg(&copy);
    helm.arg("--destination").arg(&options.output);
    helm.env("SOURCE_DATE_EPOCH", options.epoch.to_string());
    run_program(helm, "")?;
    Ok(())
}

/// What only a release can state.
fn describe(chart: &mut Value, options: &Options) -> Outcome<()> {
    let (found, wanted) = (&chart["version"], &options.version);
    if found != wanted {
        return Err(format!("{CHART} is of version {found}, not {wanted}").into());
    }
    for (field, address) in [("home", &options.home), ("icon", &options.icon)] {
        if let Some(address) = address {
            chart[field] = address.as_str().into();
        }
    }
    if !options.maintainers.is_empty() {
        let maintainers = options.maintainers.iter().map(|text| maintainer(text));
        chart["maintainers"] = maintainers.collect();
    }
    let reference = match &options.registry {
        Some(_) => options.image.clone(),
        None => format!("{}:{}", image(&options.image)?.0, options.version),
    };
    let image = json!({"name": "run-operator", "image": reference, "platforms": options.platforms});
    let changes = changelog::changes(&options.version)?;
    // Annotations of Artifact Hub, whose values are YAML in a string.
    let mut annotations = vec![("images", json!([image])), ("changes", changes.into())];
    if let Some(source) = &options.source {
        chart["sources"] = json!([source]);
        annotations.push(("links", json!([{"name": "source", "url": source}])));
    }
    for (name, value) in annotations {
        chart["annotations"][format!("artifacthub.io/{name}")] = yaml(&value)?.into();
    }
    if options.version.contains('-') {
        chart["annotations"]["artifacthub.io/prerelease"] = "true".into();
    }
    Ok(())
}

/// The README of the released chart: it installs from the registry, which is among the chart's values, and its links
/// lead to the repository at this version. Without a repository they are only their words.
fn readme(text: &str, options: &Options) -> String {
    let version = &options.version;
    let text = match &options.source {
        Some(source) => {
            let documents = format!("]({}/blob/v{version}/", source.trim_end_matches('/'));
            text.replace(&format!("]({ROOT}"), &documents)
        }
        None => changelog::without_links(text, ROOT),
    };
    let Some(registry) = &options.registry else {
        return text;
    };
    let published = format!("install run-operator oci://{registry}/{CHART} --version {version} ");
    text.replace(&format!("install run-operator {CHART} "), &published)
        .replace("--set image.registry=registry.example.com ", "")
}

fn maintainer(text: &str) -> Value {
    match text.split_once(':') {
        Some((name, email)) => json!({"name": name.trim(), "email": email.trim()}),
        None => json!({"name": text.trim()}),
    }
}

/// `values.yaml` with another registry and digest of the image, and otherwise the same, comments included.
fn with_image(values: &str, registry: &str, digest: &str) -> Outcome<String> {
    let (before, image_and_rest) = values.split_once("\nimage:\n").unwrap_or_default();
    let mut rest = image_and_rest.to_owned();
    for (field, value) in [("registry", registry), ("digest", digest)] {
        let unset = format!("  {field}: \"\"\n");
        // Up to the comment of the next value.
        let of_image = rest.find("\n#").unwrap_or(rest.len());
        if !rest[..of_image].contains(&unset) {
            return Err(format!("values.yaml has no empty {field} in image to be set").into());
        }
        rest = rest.replacen(&unset, &format!("  {field}: \"{value}\"\n"), 1);
    }
    Ok(format!("{before}\nimage:\n{rest}"))
}
