//! The releases of Kubernetes that the control plane can have: a folder with a go.mod for each.

use super::binaries::set_variable;
use super::error::Error;

/// Environment variable that chooses one, such as `1.37`.
const CHOICE: &str = "KUBERNETES";

/// A release that can be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// Major and minor version.
    minor: &'static str,
    /// The folder of its go.mod.
    folder: &'static str,
    go_mod: &'static str,
}

macro_rules! release {
    ($minor:literal) => {
        Release {
            minor: $minor,
            folder: concat!(env!("CARGO_MANIFEST_DIR"), "/kubernetes-", $minor),
            go_mod: include_str!(concat!("../kubernetes-", $minor, "/go.mod")),
        }
    };
}

/// The newest, which is built unless another is chosen. Its etcd serves all of them.
pub(crate) const NEWEST: Release = release!("1.37");

/// All of them, the operator's minimum first.
const RELEASES: [Release; 3] = [release!("1.35"), release!("1.36"), NEWEST];

impl Release {
    /// The one that `KUBERNETES` names, else the newest. Fails if it names none.
    pub fn chosen() -> Result<Self, Error> {
        let Some(choice) = set_variable(CHOICE) else {
            return Ok(NEWEST);
        };
        let found = RELEASES.iter().find(|release| choice == release.minor);
        found.copied().ok_or_else(|| Error::ChooseRelease {
            choice: choice.to_string_lossy().into_owned(),
            known: RELEASES.map(|release| release.minor).join(", "),
        })
    }

    /// Its minor version, such as `1.37`.
    pub fn minor(&self) -> &'static str {
        self.minor
    }

    /// Its version with the patch, such as `v1.37.2`: that of a program which was built, not of a downloaded one.
    pub fn version(&self) -> &'static str {
        self.word_after("k8s.io/kubernetes")
    }

    /// The folder of its go.mod.
    pub(crate) fn folder(&self) -> &'static str {
        self.folder
    }

    /// The oldest Go that builds it.
    pub(crate) fn go_version(&self) -> &'static str {
        self.word_after("go")
    }

    /// The word behind `name` in go.mod, which a test keeps from being absent.
    fn word_after(&self, name: &str) -> &'static str {
        self.go_mod
            .lines()
            .filter_map(|line| {
                let line = line.trim();
                let line = line.strip_prefix("require ").unwrap_or(line);
                line.strip_prefix(name)?.strip_prefix(' ')
            })
            .find_map(|rest| rest.split_whitespace().next())
            .unwrap_or_default()
    }
}
