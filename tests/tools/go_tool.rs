//! Programs of the Go modules in `tools/`, built once into the cache.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The path of the program that `tools/NAME` makes. Blocks, for minutes when it builds; reports on standard
/// error.
pub(crate) fn go_tool(name: &str) -> io::Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/go-tool");
    let mut script = Command::new(script);
    let built = script.arg(name).stderr(Stdio::inherit()).output()?;
    if !built.status.success() {
        let why = format!("tools/{name} could not be built, see above; is Go there?");
        return Err(io::Error::other(why));
    }
    let path = String::from_utf8_lossy(&built.stdout);
    Ok(PathBuf::from(path.trim()))
}
