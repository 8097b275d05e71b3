//! The check whether this machine can run a node, and the tests' alternative where it can't.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::binaries::set_variable;
use super::cgroup::Cgroup;
use super::error::Error;

/// The programs of a node in addition to the kubelet: the packages containerd, runc, util-linux and mount.
const PROGRAMS: [&str; 6] = [
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "runc",
    "unshare",
    "mount",
];

/// The place where a test runs the installed program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A Pod on a node of our own.
    Node,
    /// None here: the test is skipped.
    Nowhere {
        /// Reason against a node, in a few words.
        because: String,
    },
}

impl Place {
    /// By `RUN_OPERATOR_TEST_NODE`: `required` fails where a node can't be had, `off` never has one, and
    /// `auto`, as if it weren't set, has one where it can.
    pub fn choose() -> Result<Self, Error> {
        let wish = set_variable("RUN_OPERATOR_TEST_NODE").unwrap_or_else(|| "auto".into());
        match wish.to_string_lossy().as_ref() {
            "off" => Ok(Self::Nowhere {
                because: "RUN_OPERATOR_TEST_NODE is off".to_owned(),
            }),
            "auto" => Ok(match obstacle() {
                None => Self::Node,
                Some(because) => Self::Nowhere { because },
            }),
            "required" => match obstacle() {
                None => Ok(Self::Node),
                Some(because) => Err(Error::FindNode { because }),
            },
            other => Err(Error::ReadPlace(other.to_owned())),
        }
    }
}

/// The obstacle to running a node here, if there is one.
pub(crate) fn obstacle() -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("this is not Linux".to_owned());
    }
    if fs::metadata("/proc/self").map_or(1, |itself| itself.uid()) != 0 {
        return Some("we are not root".to_owned());
    }
    let absent = |program: &&&str| on_path(program).is_none();
    let missing: Vec<&str> = PROGRAMS.iter().filter(absent).copied().collect();
    if !missing.is_empty() {
        return Some(format!("{} can't be found", missing.join(", ")));
    }
    let scratch = env::temp_dir();
    if ["/run", "/var/run", "/var/lib", "/var/log"]
        .iter()
        .any(|covered| scratch.starts_with(covered))
    {
        return Some(format!("temporary files lie in {}", scratch.display()));
    }
    let mut probe = isolated();
    probe.args(["mount", "-t", "tmpfs", "tmpfs", "/run"]);
    if !probe.output().is_ok_and(|output| output.status.success()) {
        return Some("namespaces and mounts are not allowed".to_owned());
    }
    match Cgroup::create().map(|cgroup| cgroup.lacks()) {
        Err(error) => Some(error.chain()),
        Ok(lacking) if lacking.is_empty() => None,
        Ok(lacking) => Some(format!(
            "cgroups lack the controllers {}",
            lacking.join(", ")
        )),
    }
}

/// A command in PID and mount namespaces of its own: all that it starts and mounts ends with it.
pub(crate) fn isolated() -> Command {
    let unshare = on_path("unshare").unwrap_or_else(|| "unshare".into());
    let mut command = Command::new(unshare);
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command
}

/// A program's path; the directories of the administrator's programs are searched too.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = env::split_paths(&path).collect();
    directories.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let mut candidates = directories.iter().map(|directory| directory.join(program));
    candidates.find(|candidate| Path::is_file(candidate))
}
