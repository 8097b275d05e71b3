//! The parts of a release that are files: archives of programs, and krew's manifest of them.

mod archive;
mod krew;

use std::io;
use std::path::PathBuf;

use clap::Subcommand;

/// The licence, in the checkout and in each archive.
const LICENCE: &str = "LICENSE";

/// A part of a release.
#[derive(Subcommand)]
pub(crate) enum Part {
    /// Pack a program and its licence. The same bytes each time.
    Archive(archive::Options),
    /// Print the manifest with which krew installs `kubectl runs`.
    Krew(krew::Options),
}

/// A part that could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReleaseError {
    #[error("{}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{0} is not NAME_VERSION_OS_ARCHITECTURE.tar.gz")]
    Name(PathBuf),
    #[error("{} is of version {found}, not {wanted}", path.display())]
    Version {
        path: PathBuf,
        found: String,
        wanted: String,
    },
    #[error("krew knows no platform {os}/{architecture}")]
    Platform { os: String, architecture: String },
    #[error("{path}")]
    Template {
        path: &'static str,
        source: Box<serde_saphyr::Error>,
    },
    #[error("write the manifest")]
    Manifest(#[source] Box<serde_saphyr::ser::Error>),
}

impl ReleaseError {
    fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

/// Makes the part.
pub(crate) fn run(part: &Part) -> Result<(), ReleaseError> {
    match part {
        Part::Archive(options) => archive::run(options),
        Part::Krew(options) => krew::run(options),
    }
}
