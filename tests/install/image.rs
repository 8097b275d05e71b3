//! The image, and whether it can be tested here.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use test_cluster::Place;

/// The sources of the operator's image.
const SOURCES: [&str; 4] = ["src", "contract", "Cargo.toml", "Cargo.lock"];
/// The sources of the reference service's.
const SERVICE_SOURCES: [&str; 3] = ["tests/reference-service", "Cargo.toml", "Cargo.lock"];

/// The operator's image, where there is a node for it; else what is missing.
///
/// # Panics
/// Where a node is required (`RUN_OPERATOR_TEST_NODE`) and can't be had.
pub(crate) fn on_a_node() -> Result<PathBuf, String> {
    let image = match Place::choose().unwrap() {
        Place::Node => image(),
        Place::Nowhere { because } => Err(because),
    };
    let required = std::env::var("RUN_OPERATOR_TEST_NODE").is_ok_and(|wish| wish == "required");
    assert!(!required || image.is_ok(), "a node is required: {image:?}");
    image
}

fn image() -> Result<PathBuf, String> {
    let given = std::env::var_os("RUN_OPERATOR_TEST_IMAGE").filter(|path| !path.is_empty());
    match given {
        Some(given) => Ok(given.into()),
        None => made("image.tar", "make image", &SOURCES),
    }
}

/// The image of the reference service, or why there is none.
pub(crate) fn service_image() -> Result<PathBuf, String> {
    let file = "reference-service-image.tar";
    made(file, "make service-image", &SERVICE_SOURCES)
}

/// An image that is as new as its sources.
fn made(file: &str, command: &str, sources: &[&str]) -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Beside the directory of this build's programs, wherever that is.
    let programs = Path::new(env!("CARGO_BIN_EXE_run-operator")).parent();
    let target = programs.and_then(Path::parent).unwrap_or(root);
    let image = target.join(file);
    let made = std::fs::metadata(&image).and_then(|file| file.modified());
    let made = made.map_err(|_| format!("there is no {} ({command})", image.display()))?;
    let times = sources
        .iter()
        .filter_map(|source| newest(&root.join(source)));
    if times.max().is_some_and(|newest| newest > made) {
        let image = image.display();
        return Err(format!("{image} is older than the source ({command})"));
    }
    Ok(image)
}

/// Time of the last change of a file, or of the newest one of a directory.
fn newest(path: &Path) -> Option<SystemTime> {
    let Ok(entries) = std::fs::read_dir(path) else {
        return std::fs::metadata(path).ok()?.modified().ok();
    };
    let times = entries.flatten().filter_map(|entry| newest(&entry.path()));
    times.max()
}
