//! The chart as it is released: a copy of the repository's, with the registry, the image's digest, the project's
//! addresses and Artifact Hub's annotations. It is packed by the real Helm, whose archive has the time of
//! `SOURCE_DATE_EPOCH`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde_json::{Value, json};
use test_support::{root, tools::go_tool};

use super::{Image, ReleaseError, changelog};
use crate::generate;

/// The chart, in the repository and in the output.
const CHART: &str = "charts/run-operator";

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
    image: Image,
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
    /// Who maintains the chart.
    #[arg(long, value_name = "NAME:EMAIL", value_delimiter = ',')]
    maintainers: Vec<String>,
    /// The folder for the copy, `run-operator`, and its archive, `run-operator-VERSION.tgz`.
    #[arg(long)]
    output: PathBuf,
}

/// Makes the copy, and packs it.
pub(super) fn run(options: &Options) -> Result<(), ReleaseError> {
    let copy = options.output.join("run-operator");
    if copy.exists() {
        fs::remove_dir_all(&copy).map_err(ReleaseError::file(&copy))?;
    }
    copy_folder(&root().join(CHART), &copy)?;
    let file = copy.join("Chart.yaml");
    let text = fs::read_to_string(&file).map_err(ReleaseError::file(&file))?;
    let mut chart: Value = serde_saphyr::from_str(&text).map_err(ReleaseError::yaml(&file))?;
    describe(&mut chart, options)?;
    write_yaml(&file, &chart)?;
    if let Some(registry) = &options.registry {
        let values = copy.join("values.yaml");
        let text = fs::read_to_string(&values).map_err(ReleaseError::file(&values))?;
        let text = with_image(&text, registry, &options.image)?;
        fs::write(&values, text).map_err(ReleaseError::file(&values))?;
        // The schema and the README state the defaults.
        generate::write_values(&copy).map_err(ReleaseError::Generate)?;
    }
    package(&copy, options)
}

/// What only a release can state.
fn describe(chart: &mut Value, options: &Options) -> Result<(), ReleaseError> {
    let version = chart["version"].as_str().unwrap_or_default();
    if version != options.version {
        return Err(ReleaseError::Version {
            path: PathBuf::from(CHART),
            found: version.to_owned(),
            wanted: options.version.clone(),
        });
    }
    for (field, address) in [("home", &options.home), ("icon", &options.icon)] {
        if let Some(address) = address {
            chart[field] = address.as_str().into();
        }
    }
    if let Some(source) = &options.source {
        chart["sources"] = json!([source]);
    }
    let maintainers: Result<Vec<Value>, _> =
        options.maintainers.iter().map(|m| maintainer(m)).collect();
    let maintainers = maintainers?;
    if !maintainers.is_empty() {
        chart["maintainers"] = maintainers.into();
    }
    let reference = match &options.registry {
        Some(_) => options.image.to_string(),
        None => format!("{}:{}", options.image.name, options.version),
    };
    let image = json!([
        {"name": "run-operator", "image": reference, "platforms": options.platforms}
    ]);
    let changes = changelog::changes(&changelog::section(&options.version)?);
    annotate(chart, "images", &image)?;
    annotate(chart, "changes", &changes.into())?;
    if let Some(source) = &options.source {
        annotate(chart, "links", &json!([{"name": "source", "url": source}]))?;
    }
    if options.version.contains('-') {
        chart["annotations"]["artifacthub.io/prerelease"] = "true".into();
    }
    Ok(())
}

/// An annotation of Artifact Hub's, whose value is YAML in a string.
fn annotate(chart: &mut Value, name: &str, value: &Value) -> Result<(), ReleaseError> {
    let text =
        serde_saphyr::to_string(value).map_err(|error| ReleaseError::Manifest(Box::new(error)))?;
    chart["annotations"][format!("artifacthub.io/{name}")] = text.into();
    Ok(())
}

fn maintainer(text: &str) -> Result<Value, ReleaseError> {
    match text.split_once(':') {
        Some((name, email)) if !name.trim().is_empty() && email.contains('@') => {
            Ok(json!({"name": name.trim(), "email": email.trim()}))
        }
        _ => Err(ReleaseError::Maintainer(text.to_owned())),
    }
}

/// `values.yaml` with another registry and digest of the image, and otherwise the same, comments included.
fn with_image(values: &str, registry: &str, image: &Image) -> Result<String, ReleaseError> {
    let mut text = String::new();
    let mut inside = false;
    let mut set = 0;
    for line in values.lines() {
        if !line.starts_with([' ', '#']) && !line.is_empty() {
            inside = line == "image:";
        }
        let changed = match line {
            r#"  registry: """# if inside => Some(format!("  registry: \"{registry}\"")),
            r#"  digest: """# if inside => Some(format!("  digest: \"sha256:{}\"", image.sha256)),
            _ => None,
        };
        set += usize::from(changed.is_some());
        text.push_str(changed.as_deref().unwrap_or(line));
        text.push('\n');
    }
    if set == 2 {
        Ok(text)
    } else {
        Err(ReleaseError::Values)
    }
}

fn write_yaml(path: &Path, value: &Value) -> Result<(), ReleaseError> {
    let text =
        serde_saphyr::to_string(value).map_err(|error| ReleaseError::Manifest(Box::new(error)))?;
    fs::write(path, text).map_err(ReleaseError::file(path))
}

fn package(copy: &Path, options: &Options) -> Result<(), ReleaseError> {
    let helm = go_tool("helm").map_err(ReleaseError::file("tools/helm"))?;
    let mut command = Command::new(&helm);
    command.arg("package").arg(copy);
    command.arg("--destination").arg(&options.output);
    command.env("SOURCE_DATE_EPOCH", options.epoch.to_string());
    let output = command.output().map_err(ReleaseError::file(&helm))?;
    if output.status.success() {
        Ok(())
    } else {
        let why = String::from_utf8_lossy(&output.stderr);
        Err(ReleaseError::Helm(why.trim().to_owned()))
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), ReleaseError> {
    fs::create_dir_all(to).map_err(ReleaseError::file(to))?;
    for entry in fs::read_dir(from).map_err(ReleaseError::file(from))? {
        let path = entry.map_err(ReleaseError::file(from))?.path();
        let to = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &to)?;
        } else {
            fs::copy(&path, &to).map_err(ReleaseError::file(&path))?;
        }
    }
    Ok(())
}
