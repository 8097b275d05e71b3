//! The parts of a release that are files: the chart, manifests, notes, licences, provenance. `.ci/release-files` puts them
//! together.

mod changelog;
mod chart;
mod crates;
mod krew;
mod licences;
mod manifests;
mod notes;
mod provenance;

use std::fmt;

use clap::Subcommand;

use crate::common::Outcome;

/// The licence, in the checkout and in each archive.
const LICENCE: &str = "LICENSE";

/// A part of a release.
#[derive(Subcommand)]
pub(crate) enum Part {
    /// Print the manifest with which krew installs `kubectl runs`.
    Krew(krew::Options),
    /// Copy the chart, with what only a release can state, and pack it.
    Chart(Box<chart::Options>),
    /// Write install.yaml and quickstart.yaml from the released chart.
    Manifests(manifests::Options),
    /// Print the release notes.
    Notes(notes::Options),
    /// Write the licences of everything in the images.
    Licences(licences::Options),
    /// Write the provenance of every file and image.
    Provenance(Box<provenance::Options>),
}

/// Makes the part.
pub(crate) fn run(part: &Part) -> Outcome<()> {
    match part {
        Part::Krew(options) => krew::run(options),
        Part::Chart(options) => chart::run(options),
        Part::Manifests(options) => manifests::run(options),
        Part::Notes(options) => notes::run(options),
        Part::Licences(options) => licences::run(options),
        Part::Provenance(options) => provenance::run(options),
    }
}

/// An image of a release: `NAME@sha256:…`, where the name has the registry if it is published.
#[derive(Debug, Clone)]
struct Image {
    name: String,
    sha256: String,
}

/// As clap reads it.
fn image(text: &str) -> Result<Image, String> {
    let hexadecimal = |sum: &str| sum.len() == 64 && sum.chars().all(|c| c.is_ascii_hexdigit());
    match text.split_once("@sha256:") {
        Some((name, sha256)) if !name.is_empty() && hexadecimal(sha256) => Ok(Image {
            name: name.to_owned(),
            sha256: sha256.to_owned(),
        }),
        _ => Err(format!("{text} is not NAME@sha256:DIGEST")),
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@sha256:{}", self.name, self.sha256)
    }
}
