//! Why a part of a release could not be made.

use std::error::Error;
use std::io;
use std::path::PathBuf;

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
    #[error("failed to parse {}", path.display())]
    Template {
        path: PathBuf,
        source: Box<serde_saphyr::Error>,
    },
    #[error("write the manifest")]
    Manifest(#[source] Box<serde_saphyr::ser::Error>),
    #[error("{0} is not NAME:EMAIL")]
    Maintainer(String),
    #[error("CHANGELOG.md has no section [{0}] with content: write it before the release")]
    Changelog(String),
    #[error("values.yaml has no empty registry and digest in image: the release can't set them")]
    Values,
    #[error("failed to pack the chart: {0}")]
    Helm(String),
    #[error("failed to generate")]
    Generate(#[source] Box<dyn Error>),
    #[error("the quickstart has no {0:?} to replace")]
    Quickstart(String),
    #[error("failed to read the time")]
    Time(#[source] jiff::Error),
    #[error("{program} failed: {why}")]
    Program { program: String, why: String },
    #[error("failed to decode what cargo printed")]
    Metadata(#[source] serde_json::Error),
    #[error(
        "{name} {version} ({licence}) has no licence text, and none is known: add it to the release's licences"
    )]
    NoLicence {
        name: String,
        version: String,
        licence: String,
    },
}

impl ReleaseError {
    pub(super) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }

    pub(super) fn yaml(path: impl Into<PathBuf>) -> impl FnOnce(serde_saphyr::Error) -> Self {
        let path = path.into();
        move |source| Self::Template {
            path,
            source: Box::new(source),
        }
    }
}
