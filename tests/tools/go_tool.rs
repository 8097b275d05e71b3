//! Programs of the Go modules in `tools/`, built once into the cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::Error;
use super::process::run;

/// The path of the program that `tools/NAME` makes. Blocks, for minutes when it builds.
pub(crate) fn go_tool(name: &str) -> Result<PathBuf, Error> {
    let mut script = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/go-tool"));
    script.arg(name);
    Ok(PathBuf::from(run(script, "")?.trim()))
}
