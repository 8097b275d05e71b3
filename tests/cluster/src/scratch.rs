//! Directories that go with the process that made them, however that one ends.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::process::Sweeper;

/// Removes `$1` once standard input ends. A line before the end means that no process writes to it any more.
/// Without one the owner was killed, and the processes that write are being killed at the same moment: the
/// removal is repeated until the directory stays away, 10 s at most.
const SWEEP: &str = r#"
PATH=$PATH:/usr/bin:/bin
if read -r _; then exec rm -rf "$1"; fi
tries=0
while [ "$tries" -lt 50 ]; do
    rm -rf "$1" 2>/dev/null
    sleep 0.2
    [ -e "$1" ] || exit 0
    tries=$((tries + 1))
done
"#;

/// A directory of our own (mode 0700) that is removed when this is dropped, and when we die.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _sweeper: Sweeper,
}

impl Scratch {
    /// Makes a fresh directory below the system's directory for temporary files.
    pub fn new(label: &str) -> Result<Self, Error> {
        let name = format!("run-operator-{label}-{}", uuid::Uuid::new_v4().simple());
        let path = std::env::temp_dir().join(name);
        // The sweeper first: were we killed between the two, the directory would stay.
        let sweeper = Sweeper::start(SWEEP, [&path])?;
        let created = fs::DirBuilder::new().mode(0o700).create(&path);
        created.map_err(Error::file("create", &path))?;
        Ok(Self {
            path,
            _sweeper: sweeper,
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
