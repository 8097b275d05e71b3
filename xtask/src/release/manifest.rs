//! The manifest of a release for those who don't use Helm, rendered from the released chart.

use std::path::PathBuf;

use clap::Args;

use crate::common::Outcome;
use crate::generate;

/// The released chart.
#[derive(Args)]
pub(crate) struct Options {
    /// The folder of the released chart.
    #[arg(long)]
    chart: PathBuf,
    /// Values of the chart.
    #[arg(value_name = "KEY=VALUE")]
    values: Vec<String>,
}

/// Prints it.
pub(super) fn run(options: &Options) -> Outcome<()> {
    print!("{}", generate::install(&options.chart, &options.values)?);
    Ok(())
}
