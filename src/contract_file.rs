//! Contract files by source: a file, or compiled in.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::api::{Contract, contract::ContractError};

/// Bytes of a contract file; the one that is compiled in has about 3,000.
const LARGEST: u64 = 1 << 20;

/// Source of a contract file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source(Option<PathBuf>);

impl Source {
    /// The file, or the compiled-in one if unset.
    pub fn file_or_builtin(path: Option<&Path>) -> Self {
        Self(path.map(Path::to_owned))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("built-in"),
            Some(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Reason why a contract file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ContractFileError {
    /// It can't be read.
    #[error("failed to read the contract file {0}")]
    Read(Source, #[source] io::Error),
    /// It is no contract file.
    #[error("failed to use the contract file {0}")]
    Wrong(Source, #[source] Box<ContractError>),
}

/// Reads and checks a contract file.
pub fn load(from: &Source) -> Result<Contract, ContractFileError> {
    let contract = match &from.0 {
        None => Contract::builtin(),
        Some(path) => {
            let text = text(path);
            Contract::parse(&text.map_err(|error| ContractFileError::Read(from.clone(), error))?)
        }
    };
    contract.map_err(|error| ContractFileError::Wrong(from.clone(), Box::new(error)))
}

fn text(path: &Path) -> io::Result<String> {
    let text = String::from_utf8(read_up_to(path, LARGEST)?);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// Reads a file of at most `limit` bytes; a larger one, or one without end, is an error.
pub fn read_up_to(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let wrong = format!("it is larger than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, wrong));
    }
    Ok(bytes)
}
