//! Reads contract files.

use std::io::{self, Read};
use std::path::Path;

use crate::api::Contract;
use crate::util::{Failed, failed};

/// Bytes of a contract file; the one that is compiled in has about 3,000.
const LARGEST: u64 = 1 << 20;

/// What a contract file is called: its path, or `built-in` for the compiled-in one.
pub fn name(file: Option<&Path>) -> String {
    file.map_or("built-in".to_owned(), |path| path.display().to_string())
}

pub fn load(file: Option<&Path>) -> Result<Contract, Failed> {
    let read = file.map(text).transpose();
    let text = read.map_err(failed(format!("read the contract file {}", name(file))))?;
    let contract = text.map_or_else(Contract::builtin, |text| Contract::parse(&text));
    contract.map_err(failed(format!("use the contract file {}", name(file))))
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
