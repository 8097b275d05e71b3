//! The plugin as krew installs it, with the real krew: from the release's archive and manifest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::{programs, root, tools::go_tool};

use crate::dist::pack;
use crate::helm::done;
use crate::published::{RELEASE, fails};

/// The archive's name, as of a release.
const ARCHIVE: &str = concat!(
    "kubectl-runop_",
    env!("CARGO_PKG_VERSION"),
    "_linux_amd64.tar.gz"
);

/// Packs a program.
fn archive(dir: &Path, program: &str) -> PathBuf {
    let path = dir.join(ARCHIVE);
    pack(program, &path);
    path
}

fn manifest(archive: &Path, version: &str) -> Output {
    let mut script = Command::new(root().join(".ci/krew"));
    script.args([version, "https://example.com/releases/"]);
    script.arg(archive).output().unwrap()
}

/// krew, with a folder of its own.
fn krew(home: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(go_tool("krew").unwrap());
    command
        .env("KREW_ROOT", home)
        .env("KREW_NO_UPGRADE_CHECK", "1");
    command.args(args).output().unwrap()
}

/// Proves: K-plugin
#[test]
fn krew_installs_the_plugin_from_the_release() {
    let dir = TempDir::new().unwrap();
    let home = dir.path().join("krew");
    let archive = archive(dir.path(), programs::kubectl_runop().to_str().unwrap());
    let file = dir.path().join("runop.yaml");
    let install = || {
        let (file, archive) = (file.to_str().unwrap(), archive.to_str().unwrap());
        krew(
            &home,
            &["install", "--manifest", file, "--archive", archive],
        )
    };
    let text = done(&manifest(&archive, env!("CARGO_PKG_VERSION")));
    assert!(text.contains(&format!("https://example.com/releases/{ARCHIVE}")));

    // Another archive than the manifest's is refused.
    let sum = text.split("sha256:").nth(1).unwrap().trim();
    let sum = sum.lines().next().unwrap().trim_matches('"');
    fs::write(&file, text.replace(sum, &"f".repeat(64))).unwrap();
    fails(&install(), "checksum does not match");

    fs::write(&file, &text).unwrap();
    done(&install());
    let plugin = home.join("bin/kubectl-runop");
    let version = done(&Command::new(&plugin).arg("--version").output().unwrap());
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    assert!(home.join("receipts/runop.yaml").exists());
}

/// Proves: K-plugin
#[test]
fn the_release_s_manifest_has_the_program_of_each_system() {
    let manifest: Value = serde_saphyr::from_str(&RELEASE.read("runop.yaml")).unwrap();
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    let programs: Vec<_> = platforms
        .iter()
        .map(|platform| (&platform["selector"]["matchLabels"]["os"], &platform["bin"]))
        .collect();
    let wanted = [("linux", "kubectl-runop"), ("windows", "kubectl-runop.exe")];
    assert_eq!(json!(programs), json!(wanted));
}

/// Proves: K-plugin
#[test]
fn the_same_program_is_the_same_archive() {
    let (one, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let read = |dir: &TempDir| fs::read(archive(dir.path(), "LICENSE")).unwrap();
    assert!(read(&one) == read(&other));
}

/// Proves: K-plugin
#[test]
fn an_archive_of_another_version_is_refused() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("kubectl-runop_0.0.1_linux_amd64.tar.gz");
    fs::write(&path, "").unwrap();
    fails(&manifest(&path, "0.0.2"), "is of version 0.0.1, not 0.0.2");
}
