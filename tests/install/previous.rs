//! The previous release: its chart, and its image and program, which `make previous-release` builds from its commit.

use std::path::{Path, PathBuf};

use test_cluster::skipped;

use crate::installation::Version;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/previous-release");
/// The name that its image has on the node, in addition to its own: two versions may have one tag before a release.
pub(crate) const TAG: &str = "previous";

/// The files of the previous release.
pub(crate) struct Previous {
    pub(crate) image: PathBuf,
    pub(crate) version: Version,
}

impl Previous {
    /// The previous release; `None`, and the test is skipped, where nothing has built it.
    pub(crate) fn find() -> Option<Self> {
        let folder = built();
        let given = std::env::var_os("RUN_OPERATOR_PREVIOUS_IMAGE").filter(|path| !path.is_empty());
        let image = given.map_or_else(|| folder.join("image.tar"), PathBuf::from);
        let program = folder.join("run-operator");
        let missing = [&image, &program].into_iter().find(|path| !path.is_file());
        if let Some(missing) = missing {
            let because = format!("there is no {} (make previous-release)", missing.display());
            skipped("the previous release", &because);
            return None;
        }
        let version = Version {
            chart: chart(),
            program,
            tag: Some(TAG),
        };
        Some(Self { image, version })
    }
}

/// The packed chart of the previous release, with its CRDs.
fn chart() -> PathBuf {
    let name = format!("run-operator-{}.tgz", of_release("version"));
    Path::new(FOLDER).join(name)
}

/// The folder that `.ci/previous-release` builds into.
fn built() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(variable("HOME").unwrap_or_default()).join(".cache");
    cache
        .unwrap_or_else(home)
        .join("run-operator/previous")
        .join(of_release("commit"))
}

/// A field of `release.yaml`, which the script reads line by line, too.
fn of_release(field: &str) -> String {
    let text = std::fs::read_to_string(Path::new(FOLDER).join("release.yaml")).unwrap();
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(": "));
    value
        .unwrap_or_else(|| panic!("release.yaml has no {field}"))
        .to_owned()
}
