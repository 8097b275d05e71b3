//! Contract files by source: a file, or compiled in.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use run_operator::api::{Contract, contract::ContractError};

/// Bytes of a contract file; the one that is compiled in has about 3,000.
const LARGEST: u64 = 1 << 20;

/// Source of a contract file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Compiled in.
    Builtin,
    /// A file.
    File(PathBuf),
}

impl Source {
    /// The file, or the compiled-in one if unset.
    pub(crate) fn file_or_builtin(path: Option<&Path>) -> Self {
        path.map_or(Self::Builtin, |path| Self::File(path.to_owned()))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin => f.write_str("built-in"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Reason why a contract file can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContractFileError {
    #[error("failed to read the contract file {from}")]
    Read { from: Source, source: io::Error },
    #[error("failed to use the contract file {from}: it is larger than {LARGEST} bytes")]
    TooLarge { from: Source },
    #[error("failed to use the contract file {from}")]
    Wrong {
        from: Source,
        source: Box<ContractError>,
    },
}

/// Reads and checks a contract file.
pub(crate) fn load(from: &Source) -> Result<Contract, ContractFileError> {
    let contract = match from {
        Source::Builtin => Contract::builtin(),
        Source::File(path) => {
            let file = std::fs::File::open(path).map_err(|source| ContractFileError::Read {
                from: from.clone(),
                source,
            })?;
            Contract::parse(&text(from, file)?)
        }
    };
    contract.map_err(|source| ContractFileError::Wrong {
        from: from.clone(),
        source: Box::new(source),
    })
}

fn text(from: &Source, reader: impl Read) -> Result<String, ContractFileError> {
    let failed = |source| ContractFileError::Read {
        from: from.clone(),
        source,
    };
    let Some(bytes) = read_up_to(reader, LARGEST).map_err(failed)? else {
        return Err(ContractFileError::TooLarge { from: from.clone() });
    };
    String::from_utf8(bytes).map_err(|error| {
        failed(io::Error::new(
            io::ErrorKind::InvalidData,
            error.utf8_error(),
        ))
    })
}

/// Reads everything; `None` if it is larger than `limit` bytes.
pub(crate) fn read_up_to(reader: impl Read, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    reader.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}
