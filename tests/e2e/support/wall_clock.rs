//! A wall clock that a test moves, of one process and its own; every other clock is true.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The library that a process loads before its own. Linux with glibc: the tests' operator is linked to it.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wall_clock.so");
    // Other suites may make it at the same time.
    let own = library.with_extension(std::process::id().to_string());
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/e2e/support/wall_clock.c"
    );
    // The compiler that Rust links with.
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"])
        .arg(&own)
        .arg(source)
        .status();
    assert!(compiled.unwrap().success());
    std::fs::rename(&own, &library).unwrap();
    library
});

/// A wall clock.
pub(crate) struct WallClock(PathBuf);

impl WallClock {
    /// Whether a process can have one here.
    pub(crate) const POSSIBLE: bool = cfg!(all(target_os = "linux", target_env = "gnu"));

    /// One that is true, kept in this folder.
    pub(crate) fn new(folder: &Path) -> Self {
        let clock = Self(folder.join("wall_clock"));
        clock.is_wrong_by(0);
        clock
    }

    /// Moves it by so many seconds from the true time. It is never seen half-written.
    pub(crate) fn is_wrong_by(&self, seconds: i64) {
        let new = self.0.with_extension("new");
        std::fs::write(&new, seconds.to_string()).unwrap();
        std::fs::rename(&new, &self.0).unwrap();
    }

    /// With which a process has it.
    pub(crate) fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("LD_PRELOAD", LIBRARY.clone()),
            ("OPERATOR_WALL_CLOCK", self.0.clone()),
        ]
    }
}
