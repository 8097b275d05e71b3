//! Manifests of a release for those who don't use Helm, rendered from the released chart: `install.yaml`, and
//! `quickstart.yaml`, which is deploy/quickstart in one file.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use test_support::{root, tools::go_tool};

use super::{Image, ReleaseError};
use crate::generate;

const QUICKSTART: &str = "deploy/quickstart";
/// The kustomization's patches, as values of the chart.
const QUICKSTART_VALUES: &[&str] = &[
    "baseUrl=http://reference-service.quickstart.svc:8090/api/v1",
    "allowInsecureHttp=true",
];

/// The released chart and the image that is not in it.
#[derive(Args)]
pub(crate) struct Options {
    /// The folder of the released chart.
    #[arg(long)]
    chart: PathBuf,
    /// The reference service's image, as the quickstart names it.
    #[arg(long, value_name = "REFERENCE")]
    service: String,
    /// The release's version.
    #[arg(long)]
    version: String,
    /// The folder for both files.
    #[arg(long)]
    output: PathBuf,
}

/// Writes both files.
pub(super) fn run(options: &Options) -> Result<(), ReleaseError> {
    let helm = go_tool("helm").map_err(ReleaseError::file("tools/helm"))?;
    let render = |values: &[&str]| {
        generate::install(&helm, &options.chart, values).map_err(ReleaseError::Generate)
    };
    write(&options.output.join("install.yaml"), &render(&[])?)?;
    let mut quickstart = render(QUICKSTART_VALUES)?;
    for name in ["namespace.yaml", "service.yaml"] {
        let path = root().join(QUICKSTART).join(name);
        let text = fs::read_to_string(&path).map_err(ReleaseError::file(&path))?;
        quickstart.push_str("---\n");
        quickstart.push_str(&text);
    }
    let built = format!("image: {}:{}", Image::SERVICE, options.version);
    if !quickstart.contains(&built) {
        return Err(ReleaseError::Quickstart(built));
    }
    let released = format!("image: {}", options.service);
    write(
        &options.output.join("quickstart.yaml"),
        &quickstart.replace(&built, &released),
    )
}

fn write(path: &Path, text: &str) -> Result<(), ReleaseError> {
    fs::write(path, text).map_err(ReleaseError::file(path))
}
