//! Release notes: the version's section of the changelog, and what to install it by.

use clap::Args;

use super::{Image, ReleaseError, changelog};

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
    #[arg(long = "image", value_name = "NAME@DIGEST")]
    images: Vec<Image>,
}

/// Prints the notes.
pub(super) fn run(options: &Options) -> Result<(), ReleaseError> {
    let section = changelog::section(&options.version)?;
    println!("{}", linked(&section, options));
    println!("\n### Images");
    for image in &options.images {
        println!("- `{image}`");
    }
    let guide = linked("[docs/release.md](docs/release.md)", options);
    println!("\nHow to verify them, the chart and the files: {guide}.");
    Ok(())
}

/// Links to documents lead to this version's.
fn linked(text: &str, options: &Options) -> String {
    let Some(source) = &options.source else {
        return text.to_owned();
    };
    let source = source.trim_end_matches('/');
    let documents = format!("]({source}/blob/v{}/docs/", options.version);
    text.replace("](docs/", &documents)
}
