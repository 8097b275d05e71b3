//! Programs of the workspace that a suite of another package runs.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::cargo;

/// The folder that the programs of the workspace are built into, such as `target/debug`: that of the running
/// program, or, for a test, the one above it.
///
/// # Panics
/// If the kernel does not know the running program.
pub fn directory() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let directory = own.parent().unwrap();
    if directory.ends_with("deps") {
        directory.parent().unwrap().to_owned()
    } else {
        directory.to_owned()
    }
}

/// A program of the workspace in that folder; an error is the path where it should be.
pub fn find(name: &str) -> Result<PathBuf, PathBuf> {
    let path = directory().join(name);
    if path.is_file() { Ok(path) } else { Err(path) }
}

/// The reference service, built once a process where its source has changed. Cargo builds the programs of a suite's own
/// package only. A suite outside the workspace, where there is none to build, has its path in
/// `RUN_OPERATOR_TEST_REFERENCE_SERVICE`.
///
/// # Panics
/// If it cannot be built.
pub fn reference_service() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        if let Some(path) = std::env::var_os("RUN_OPERATOR_TEST_REFERENCE_SERVICE") {
            return path.into();
        }
        let directory = directory();
        let mut cargo = cargo();
        cargo
            .args(["build", "--quiet", "--locked"])
            // The whole workspace, as the suites were built: with other features of its dependencies it would take
            // minutes.
            .args(["--bin", "reference-service"]);
        if directory.ends_with("release") {
            cargo.arg("--release");
        }
        let built = cargo.status().unwrap();
        assert!(built.success(), "the reference service could not be built");
        directory.join("reference-service")
    });
    &PROGRAM
}
