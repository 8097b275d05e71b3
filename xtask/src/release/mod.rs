//! The parts of a release that are files: archives of programs, the chart, manifests, notes, licences, provenance.
//! `.ci/release-files` puts them together.

mod archive;
mod changelog;
mod chart;
mod crates;
mod error;
mod image;
mod krew;
mod licences;
mod manifests;
mod notes;
mod provenance;

use clap::Subcommand;

pub(crate) use error::ReleaseError;
use image::Image;

/// The licence, in the checkout and in each archive.
const LICENCE: &str = "LICENSE";

/// A part of a release.
#[derive(Subcommand)]
pub(crate) enum Part {
    /// Pack a program and its licence. The same bytes each time.
    Archive(archive::Options),
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
pub(crate) fn run(part: &Part) -> Result<(), ReleaseError> {
    match part {
        Part::Archive(options) => archive::run(options),
        Part::Krew(options) => krew::run(options),
        Part::Chart(options) => chart::run(options),
        Part::Manifests(options) => manifests::run(options),
        Part::Notes(options) => notes::run(options),
        Part::Licences(options) => licences::run(options),
        Part::Provenance(options) => provenance::run(options),
    }
}
