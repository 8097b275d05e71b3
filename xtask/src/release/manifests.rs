//! Manifests of a release for those who don't use Helm, rendered from the released chart: `install.yaml`, and
//! `quickstart.yaml`, which is deploy/quickstart in one file.

use std::path::PathBuf;

use clap::Args;
use test_support::root;

use crate::common::{Outcome, read, write};
use crate::generate;

const QUICKSTART: &str = "deploy/quickstart";
/// The kustomization's patches, as values of the chart.
const QUICKSTART_VALUES: &str =
    "baseUrl=http://reference-service.quickstart.svc:8090/api/v1 allowInsecureHttp=true";

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
pub(super) fn run(options: &Options) -> Outcome<()> {
    let install = generate::install(&options.chart, "")?;
    write(&options.output.join("install.yaml"), install)?;
    let mut quickstart = generate::install(&options.chart, QUICKSTART_VALUES)?;
    for name in ["namespace.yaml", "service.yaml"] {
        quickstart.push_str("---\n");
        quickstart.push_str(&read(&root().join(QUICKSTART).join(name))?);
    }
    let built = format!("image: reference-service:{}", options.version);
    if !quickstart.contains(&built) {
        return Err(format!("the quickstart has no {built:?} to replace").into());
    }
    let released = format!("image: {}", options.service);
    let quickstart = quickstart.replace(&built, &released);
    write(&options.output.join("quickstart.yaml"), quickstart)
}
