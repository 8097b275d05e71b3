//! A small release, made by the release's own scripts. Its programs are not the operator's, which take minutes to
//! build, but another static program under their names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use test_support::registry::Registry;
use test_support::{calling_cargo, root, tools::go_tool};

use crate::helm::done;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
const EPOCH: &str = "1700000000";

/// A release for a registry of its own.
pub(crate) struct Dist {
    pub(crate) registry: Registry,
    pub(crate) folder: TempDir,
}

impl Dist {
    pub(crate) fn new() -> Self {
        let registry = Registry::start().unwrap();
        let folder = make(&registry.address, "0123abc");
        Self { registry, folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// A script of `.ci` about this release, with more variables.
    pub(crate) fn script(&self, name: &str, variables: &[(&str, &str)]) -> Output {
        script(name, self.folder.path(), &self.registry.address, variables)
    }

    /// What is under a name of the registry.
    pub(crate) fn resolve(&self, name: &str) -> Output {
        let reference = format!("{}/{name}", self.registry.address);
        image(&["resolve", &reference])
    }
}

/// The program of `tools/image`.
pub(crate) fn image(args: &[&str]) -> Output {
    let mut command = Command::new(go_tool("image").unwrap());
    command.args(args).output().unwrap()
}

/// Variables of Helm, cosign and the registry for their own files, which are not to be in the home directory.
const HOMES: [&str; 5] = [
    "HELM_CACHE_HOME",
    "HELM_CONFIG_HOME",
    "HELM_DATA_HOME",
    "DOCKER_CONFIG",
    "TUF_ROOT",
];

pub(crate) fn script(name: &str, dist: &Path, registry: &str, more: &[(&str, &str)]) -> Output {
    let mut command = calling_cargo(&root().join(".ci").join(name));
    command.arg(VERSION).env("DIST", dist);
    command.env("REGISTRY", registry);
    for home in HOMES {
        command.env(home, dist.join("homes").join(home));
    }
    command.envs(more.iter().copied());
    command.output().unwrap()
}

/// A release of this commit, for a registry.
pub(crate) fn make(registry: &str, commit: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    platform(folder.path(), commit);
    // What a machine with Windows has made.
    let windows = folder.path().join("tool/x86_64-pc-windows-msvc");
    fs::create_dir_all(&windows).unwrap();
    fs::write(windows.join("kubectl-runop.exe"), "").unwrap();
    let variables = [
        ("COMMIT", commit),
        ("EPOCH", EPOCH),
        ("SOURCE", "https://example.com/run-operator"),
        ("HOMEPAGE", "https://example.com"),
        ("ICON", "https://example.com/icon.svg"),
        ("ADDRESS", "https://example.com/releases"),
        ("MAINTAINERS", "A Team:team@example.com,acme"),
    ];
    let made = script("release-files", folder.path(), registry, &variables);
    done(&made);
    folder
}

/// The folder that `.ci/release-platform` leaves, for this machine's architecture.
pub(crate) fn platform(dist: &Path, commit: &str) -> PathBuf {
    let arch = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "amd64",
    };
    let folder = dist.join(arch);
    fs::create_dir_all(&folder).unwrap();
    let text = |path: PathBuf| path.display().to_string();
    // Static, small, and built for the node's tests anyway.
    let program = text(go_tool("pause").unwrap());
    for name in ["run-operator", "kubectl-runop", "reference-service"] {
        let out = text(folder.join(format!("{name}-image")));
        let written = ["write", "--name", name, "--program", &program];
        let of = ["--version", VERSION, "--revision", commit, "--epoch", EPOCH];
        done(&image(&[&written[..], &["--out", &out], &of].concat()));
        let bill = folder.join(format!("{name}_{VERSION}_linux_{arch}.cdx.json"));
        fs::write(bill, r#"{"bomFormat": "CycloneDX", "specVersion": "1.5"}"#).unwrap();
    }
    let archive = folder.join(format!("kubectl-runop_{VERSION}_linux_{arch}.tar.gz"));
    pack(&program, &archive);
    folder
}

/// Makes the archive of kubectl-runop, with this program in it.
pub(crate) fn pack(program: &str, archive: &Path) {
    let mut script = Command::new(root().join(".ci/archive"));
    script.args([program, "kubectl-runop"]).arg(archive);
    done(&script.output().unwrap());
}
