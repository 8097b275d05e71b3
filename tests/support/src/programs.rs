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

/// The reference service. A suite outside the workspace, where there is none to build, has its path in
/// `RUN_OPERATOR_TEST_REFERENCE_SERVICE`.
///
/// # Panics
/// If it cannot be built.
pub fn reference_service() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let given = std::env::var_os("RUN_OPERATOR_TEST_REFERENCE_SERVICE");
        given.map_or_else(|| built("reference-service"), PathBuf::from)
    });
    &PROGRAM
}

/// The tool on the desk.
///
/// # Panics
/// If it cannot be built.
pub fn kubectl_runop() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| built("kubectl-runop"));
    &PROGRAM
}

/// Builds a program of another package where its source has changed: cargo builds those of a suite's own package only.
fn built(name: &str) -> PathBuf {
    let directory = directory();
    let mut cargo = cargo();
    // The whole workspace, as the suites were built: with other features of its dependencies it would take minutes.
    cargo.args(["build", "--quiet", "--locked", "--bin", name]);
    if directory.ends_with("release") {
        cargo.arg("--release");
    }
    let built = cargo.status().unwrap();
    assert!(built.success(), "{name} could not be built");
    directory.join(name)
}
