//! The manifest with which krew installs the plugin: the repository's entry, with a release's version and archives.

use std::path::{Path, PathBuf};

use clap::Args;
use run_operator::decide::request::body::sha256;
use serde_json::{Value, json};
use test_support::root;

use super::LICENCE;
use crate::common::{Outcome, read_bytes, read_yaml, yaml};

/// The entry without version and platforms.
const TEMPLATE: &str = "deploy/krew/runs.yaml";
/// The program by whose name kubectl finds the plugin.
const PROGRAM: &str = "kubectl-runs";

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
pub(super) fn run(options: &Options) -> Outcome<()> {
    let mut manifest = read_yaml(&root().join(TEMPLATE))?;
    let archives = options.archives.iter();
    let platforms: Outcome<Vec<_>> = archives.map(|path| platform(path, options)).collect();
    let spec = &mut manifest["spec"];
    spec["version"] = format!("v{}", options.version).into();
    spec["platforms"] = platforms?.into();
    if let Some(homepage) = &options.homepage {
        spec["homepage"] = homepage.as_str().into();
    }
    print!("{}", yaml(&manifest)?);
    Ok(())
}

/// The entry of one archive, by its name.
fn platform(archive: &Path, options: &Options) -> Outcome<Value> {
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    let parts: Vec<&str> = name.trim_end_matches(".tar.gz").split('_').collect();
    let [PROGRAM, version, os @ "linux", arch @ ("amd64" | "arm64")] = parts[..] else {
        let wanted = format!("{PROGRAM}_VERSION_linux_ARCHITECTURE.tar.gz");
        return Err(format!("{name} is not {wanted}").into());
    };
    if version != options.version {
        return Err(format!("{name} is of version {version}, not {}", options.version).into());
    }
    Ok(json!({
        "selector": {"matchLabels": {"os": os, "arch": arch}},
        "uri": format!("{}/{name}", options.address.trim_end_matches('/')),
        "sha256": sha256(&read_bytes(archive)?),
        "files": [{"from": PROGRAM, "to": "."}, {"from": LICENCE, "to": "."}],
        "bin": PROGRAM,
    }))
}
