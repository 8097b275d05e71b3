//! The manifest with which krew installs the plugin: the repository's entry, with a release's version and archives.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use run_operator::decide::request::body::sha256;
use serde_json::{Value, json};
use test_support::root;

use super::{LICENCE, ReleaseError};

/// The entry without version and platforms.
const TEMPLATE: &str = "deploy/krew/runs.yaml";
/// The program by whose name kubectl finds the plugin.
const PROGRAM: &str = "kubectl-runs";
/// The platforms for which there is a release.
const PLATFORMS: &[(&str, &str)] = &[("linux", "amd64"), ("linux", "arm64")];

/// The release, and where its archives can be downloaded.
#[derive(Args)]
pub(crate) struct Options {
    /// The release's version, such as 1.2.3.
    #[arg(long)]
    version: String,
    /// The address of the folder with the archives.
    #[arg(long, value_name = "URL")]
    address: String,
    /// The project's page.
    #[arg(long, value_name = "URL")]
    homepage: Option<String>,
    /// The archives of kubectl-runs, one for each platform.
    #[arg(required = true, value_name = "ARCHIVE")]
    archives: Vec<PathBuf>,
}

/// Prints the manifest.
pub(super) fn run(options: &Options) -> Result<(), ReleaseError> {
    let path = root().join(TEMPLATE);
    let text = fs::read_to_string(&path).map_err(ReleaseError::file(&path))?;
    let mut manifest: Value =
        serde_saphyr::from_str(&text).map_err(ReleaseError::yaml(TEMPLATE))?;
    let platforms: Result<Vec<_>, _> = options
        .archives
        .iter()
        .map(|archive| platform(archive, options))
        .collect();
    let spec = &mut manifest["spec"];
    spec["version"] = format!("v{}", options.version).into();
    spec["platforms"] = platforms?.into();
    if let Some(homepage) = &options.homepage {
        spec["homepage"] = homepage.as_str().into();
    }
    let text = serde_saphyr::to_string(&manifest)
        .map_err(|error| ReleaseError::Manifest(Box::new(error)))?;
    print!("{text}");
    Ok(())
}

/// The entry of one archive.
fn platform(archive: &Path, options: &Options) -> Result<Value, ReleaseError> {
    let name = archive.file_name().and_then(|name| name.to_str());
    let parts = name
        .and_then(|name| name.strip_suffix(".tar.gz"))
        .map(|name| name.split('_').collect::<Vec<_>>());
    let (Some(name), Some([PROGRAM, version, os, architecture])) = (name, parts.as_deref()) else {
        return Err(ReleaseError::Name(archive.to_owned()));
    };
    if *version != options.version {
        return Err(ReleaseError::Version {
            path: archive.to_owned(),
            found: (*version).to_owned(),
            wanted: options.version.clone(),
        });
    }
    if !PLATFORMS.contains(&(os, architecture)) {
        return Err(ReleaseError::Platform {
            os: (*os).to_owned(),
            architecture: (*architecture).to_owned(),
        });
    }
    let bytes = fs::read(archive).map_err(ReleaseError::file(archive))?;
    Ok(json!({
        "selector": {"matchLabels": {"os": os, "arch": architecture}},
        "uri": format!("{}/{name}", options.address.trim_end_matches('/')),
        "sha256": sha256(&bytes),
        "files": [{"from": PROGRAM, "to": "."}, {"from": LICENCE, "to": "."}],
        "bin": PROGRAM,
    }))
}
