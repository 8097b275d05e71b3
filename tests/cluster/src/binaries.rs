//! The control plane's programs: found, or downloaded or built once with Go into a cache outside the checkout.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::error::Error;
use super::prebuilt;
use super::process::{Output, POLL, Process};
use super::release::{NEWEST, Release};
use super::scratch::Scratch;

/// Interval of the progress messages of a build.
const PROGRESS: Duration = Duration::from_secs(15);

/// A program of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Etcd,
    ApiServer,
    Kubectl,
    ControllerManager,
    Scheduler,
    Kubelet,
}

impl Tool {
    /// Its file name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::Kubectl => "kubectl",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubelet => "kubelet",
        }
    }

    /// Whether setup-envtest has it.
    fn is_prebuilt(self) -> bool {
        matches!(self, Self::Etcd | Self::ApiServer | Self::Kubectl)
    }

    /// Its Go package, one of the tools of go.mod.
    fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::ApiServer => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::ControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::Scheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kubelet => "k8s.io/kubernetes/cmd/kubelet",
        }
    }
}

/// The folders with the programs: `KUBEBUILDER_ASSETS`, if set, and then the cache, with a folder for each release that
/// was built, and one for each minor version that was downloaded.
#[derive(Debug, Clone)]
pub struct Binaries {
    assets: Option<PathBuf>,
    cache: PathBuf,
    chosen: Release,
}

impl Binaries {
    /// Finds each of `tools`, in `KUBEBUILDER_ASSETS` first and in the cache second, and downloads or else builds the
    /// rest. Blocks, for minutes when it builds; reports on standard error.
    ///
    /// Fails with one sentence where there is neither the programs nor Go.
    pub fn find_or_build(tools: &[Tool]) -> Result<Self, Error> {
        let binaries = Self::locate()?;
        if !binaries.missing(tools).is_empty() {
            binaries.build(tools)?;
        }
        Ok(binaries)
    }

    /// The places to look in; builds nothing.
    pub fn locate() -> Result<Self, Error> {
        let assets = set_variable("KUBEBUILDER_ASSETS").map(PathBuf::from);
        if let Some(directory) = assets.as_ref().filter(|directory| !directory.is_dir()) {
            return Err(Error::ReadAssets(directory.clone()));
        }
        let cache = set_variable("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| set_variable("HOME").map(|home| Path::new(&home).join(".cache")))
            .ok_or(Error::FindCache)?
            .join("run-operator");
        Ok(Self {
            assets,
            cache,
            chosen: Release::chosen()?,
        })
    }

    /// The path of a program that is there; else none.
    pub fn find(&self, tool: Tool) -> Option<PathBuf> {
        let built = self.folder(self.release(tool));
        let prebuilt = self.prebuilt();
        let places = self.assets.iter().chain([&built, &prebuilt]);
        places
            .map(|directory| directory.join(tool.name()))
            .find(|path| path.is_file())
    }

    /// The path of a program, for a process that will fail with its name if it isn't there.
    pub fn path(&self, tool: Tool) -> PathBuf {
        self.find(tool)
            .unwrap_or_else(|| PathBuf::from(tool.name()))
    }

    /// The release that a program is of.
    fn release(&self, tool: Tool) -> Release {
        match tool {
            Tool::Etcd => NEWEST,
            _ => self.chosen,
        }
    }

    /// The folder of a release in the cache.
    fn folder(&self, release: Release) -> PathBuf {
        self.cache.join(format!("k8s-{}", release.version()))
    }

    /// The name in the cache of what was downloaded.
    fn prebuilt(&self) -> PathBuf {
        self.cache
            .join(format!("k8s-{}-prebuilt", self.chosen.minor()))
    }

    fn missing(&self, tools: &[Tool]) -> Vec<Tool> {
        let missing = tools.iter().filter(|tool| self.find(**tool).is_none());
        missing.copied().collect()
    }

    fn build(&self, tools: &[Tool]) -> Result<(), Error> {
        if !go_is_there() {
            return Err(Error::FindBinaries {
                go: self.chosen.go_version(),
                version: self.chosen.version(),
            });
        }
        if self.missing(tools).iter().any(|tool| tool.is_prebuilt()) {
            self.download(tools)?;
        }
        let (newest, chosen): (Vec<_>, Vec<_>) = tools
            .iter()
            .partition(|tool| self.release(**tool) == NEWEST);
        self.build_release(NEWEST, &newest)?;
        self.build_release(self.chosen, &chosen)
    }

    fn download(&self, tools: &[Tool]) -> Result<(), Error> {
        let _lock = lock(&self.cache)?;
        // Another process may have downloaded them while we waited for the lock.
        if self.missing(tools).iter().any(|tool| tool.is_prebuilt()) {
            prebuilt::download(self.chosen.minor(), &self.cache, &self.prebuilt())?;
        }
        Ok(())
    }

    /// Builds what is missing of a release.
    fn build_release(&self, release: Release, tools: &[Tool]) -> Result<(), Error> {
        if self.missing(tools).is_empty() {
            return Ok(());
        }
        let folder = self.folder(release);
        let _lock = lock(&folder)?;
        remove_leftovers(&folder)?;
        // Another process may have built them while we waited for the lock.
        let missing = self.missing(tools);
        if missing.is_empty() {
            return Ok(());
        }
        let (version, into) = (release.version(), folder.display());
        say(&format!(
            "cluster: building Kubernetes {version} once, into {into}"
        ));
        for (index, tool) in missing.iter().enumerate() {
            let nth = format!("{} of {}", index + 1, missing.len());
            build_one(*tool, release, &folder, &nth)?;
        }
        Ok(())
    }
}

/// One build at a time: two would take twice as long, each.
fn lock(folder: &Path) -> Result<File, Error> {
    fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    let path = folder.join(".lock");
    let file = File::create(&path).map_err(Error::file("open", &path))?;
    if file.try_lock().is_err() {
        say("cluster: waiting for another process that gets the control plane");
        file.lock().map_err(Error::file("lock", &path))?;
    }
    Ok(file)
}

/// Removes the leftovers of a killed build. Called with the lock held, so that none of them is in use.
fn remove_leftovers(folder: &Path) -> Result<(), Error> {
    let entries = fs::read_dir(folder).map_err(Error::file("read", folder))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|ending| ending == "part") {
            fs::remove_file(&path).map_err(Error::file("remove", &path))?;
        }
    }
    Ok(())
}

fn build_one(tool: Tool, release: Release, folder: &Path, nth: &str) -> Result<(), Error> {
    let name = tool.name();
    let scratch = Scratch::new("build")?;
    let part = folder.join(format!("{name}.{}.part", std::process::id()));
    let mut go = go_build(tool, release, &part);
    go.env("GOTMPDIR", scratch.path());
    let mut go = Process::spawn(&go, Output::File(scratch.path().join("log")))?;
    let started = Instant::now();
    let mut next_word = Duration::ZERO;
    let code = loop {
        if let Some(code) = go.exit_code() {
            break code;
        }
        if started.elapsed() >= next_word {
            let seconds = next_word.as_secs();
            say(&format!("cluster: building {name} ({nth}), {seconds} s"));
            next_word += PROGRESS;
        }
        std::thread::sleep(POLL);
    };
    if code != 0 {
        let log = go.log_tail();
        return Err(Error::Build {
            tool: name,
            code,
            log,
        });
    }
    let target = folder.join(name);
    fs::rename(&part, &target).map_err(Error::file("rename to", &target))?;
    let seconds = started.elapsed().as_secs();
    say(&format!("cluster: built {name} ({nth}) in {seconds} s"));
    Ok(())
}

/// The command that builds `tool` to `target`, whatever the caller's own Go settings are.
fn go_build(tool: Tool, release: Release, target: &Path) -> Command {
    // Without this the server takes itself for v0.0.0.
    let version = format!(
        "-s -w -X k8s.io/component-base/version.gitVersion={}",
        release.version()
    );
    let mut go = Command::new("go");
    go.current_dir(release.folder())
        .args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath"])
        .args(["-ldflags", &version, "-o"])
        .arg(target)
        .arg(tool.package())
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env_remove("GOFLAGS")
        .env_remove("GOOS")
        .env_remove("GOARCH");
    go
}

fn go_is_there() -> bool {
    let output = Command::new("go").arg("version").output();
    output.is_ok_and(|output| output.status.success())
}

/// An environment variable that is set and not empty.
pub fn set_variable(name: &str) -> Option<std::ffi::OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// A line on the real standard error: the test harness would hold back what `eprintln!` prints.
pub(crate) fn say(line: &str) {
    // Fails when standard error is closed.
    let _ = writeln!(std::io::stderr(), "{line}");
}
