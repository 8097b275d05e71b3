//! The files that results are kept in, as JSON.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The results can't be kept or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResultsError {
    #[error("failed to read or write {}", file.display())]
    File { file: PathBuf, source: io::Error },
    #[error("{} is no result", file.display())]
    Format {
        file: PathBuf,
        source: serde_json::Error,
    },
}

/// What a file holds; none without the file.
pub(super) fn read<T: DeserializeOwned>(file: &Path) -> Result<Option<T>, ResultsError> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(ResultsError::File {
                file: file.to_owned(),
                source,
            });
        }
    };
    let value = serde_json::from_str(&text).map_err(|source| ResultsError::Format {
        file: file.to_owned(),
        source,
    })?;
    Ok(Some(value))
}

/// Writes a file, and its folder.
pub(super) fn write(file: &Path, value: &impl Serialize) -> Result<(), ResultsError> {
    let write = || -> io::Result<()> {
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(file, serde_json::to_string_pretty(value)?)
    };
    write().map_err(|source| ResultsError::File {
        file: file.to_owned(),
        source,
    })
}
