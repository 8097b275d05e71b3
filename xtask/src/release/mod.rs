//! The parts of a release that are more than a script makes: the chart, manifests, schemas, licences, provenance.
//! `.ci/release-files` puts all parts together.

mod changelog;
mod chart;
mod crates;
mod licences;
mod provenance;
mod schemas;

use std::path::PathBuf;

use clap::Subcommand;

use crate::common::Outcome;
use crate::generate;

/// A part of a release.
#[derive(Subcommand)]
pub(crate) enum Part {
    /// Copy the chart, with what only a release can state, and pack it.
    Chart(Box<chart::Options>),
    /// Print the released chart as a plain manifest, for those who don't use Helm.
    Manifest {
        /// The folder of the released chart.
        #[arg(long)]
        chart: PathBuf,
        /// Values of the chart.
        #[arg(value_name = "KEY=VALUE")]
        values: Vec<String>,
    },
    /// Write the JSON schemas of the resources, in kubeconform's layout.
    Schemas {
        /// The folder for them.
        #[arg(long)]
        output: PathBuf,
    },
    /// Write the licences of everything in the images.
    Licences(licences::Options),
    /// Write the provenance of every file and image.
    Provenance(Box<provenance::Options>),
}

/// Makes the part.
pub(crate) fn run(part: &Part) -> Outcome<()> {
    match part {
        Part::Chart(options) => chart::run(options),
        Part::Manifest { chart, values } => {
            print!("{}", generate::install(chart, values)?);
            Ok(())
        }
        Part::Schemas { output } => schemas::run(output),
        Part::Licences(options) => licences::run(options),
        Part::Provenance(options) => provenance::run(options),
    }
}

/// Name and digest (`sha256:…`) of an image.
fn image(text: &str) -> Outcome<(&str, &str)> {
    let parts = text.split_once('@');
    let parts = parts.filter(|(_, digest)| digest.starts_with("sha256:"));
    Ok(parts.ok_or_else(|| format!("{text} is not NAME@sha256:DIGEST"))?)
}
