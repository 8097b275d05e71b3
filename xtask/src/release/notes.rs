//! Release notes: the version's section of the changelog, and what to install it by.

use std::fmt::Write;

use clap::Args;

use super::{Image, changelog, image};
use crate::common::Outcome;

/// The release.
#[derive(Args)]
pub(crate) struct Options {
    /// The release's version.
    #[arg(long)]
    version: String,
    /// The repository's page, for links to documents.
    #[arg(long, value_name = "URL")]
    source: Option<String>,
    /// The images: `NAME@DIGEST`.
    #[arg(long = "image", value_name = "NAME@DIGEST", value_parser = image)]
    images: Vec<Image>,
}

/// Prints the notes.
pub(super) fn run(options: &Options) -> Outcome<()> {
    let mut notes = changelog::section(&options.version)?;
    notes.push_str("\n\n### Images\n");
    for image in &options.images {
        let _ = writeln!(notes, "- `{image}`");
    }
    notes.push_str(
        "\nHow to verify them, the chart and the files: [docs/release.md](docs/release.md).",
    );
    // Links to documents lead to this version's.
    if let Some(source) = &options.source {
        let (source, version) = (source.trim_end_matches('/'), &options.version);
        notes = notes.replace("](docs/", &format!("]({source}/blob/v{version}/docs/"));
    }
    println!("{notes}");
    Ok(())
}
