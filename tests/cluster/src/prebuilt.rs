//! Programs that need no build: setup-envtest downloads etcd, kube-apiserver and kubectl in half a minute, and checks
//! their digests. Building them takes minutes.

use std::fs::{self, File};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::binaries::{say, set_variable};
use super::error::Error;
use super::process::{Output, POLL, Process};
use super::scratch::Scratch;

/// Serves setup-envtest's list of what can be downloaded.
const HOST: (&str, u16) = ("raw.githubusercontent.com", 443);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const DOWNLOAD_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a failure counts, for every process with this cache.
const NEXT_ATTEMPT: Duration = Duration::from_hours(24);

/// Downloads the newest patch of a minor version, such as `1.37`, into `cache`, and makes `link` name its folder. If that
/// fails, says why in one line, and does not try again for a day. Blocks, for a minute at most once setup-envtest is built.
pub(crate) fn download(minor: &str, cache: &Path, link: &Path) -> Result<(), Error> {
    let failed = cache.join(format!("k8s-{minor}-failed"));
    let age = fs::metadata(&failed).and_then(|failed| failed.modified());
    if age.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < NEXT_ATTEMPT)) {
        return Ok(());
    }
    let began = Instant::now();
    match attempt(minor, &cache.join("envtest"), link) {
        Ok(()) => {
            let seconds = began.elapsed().as_secs();
            say(&format!(
                "cluster: downloaded etcd, kube-apiserver and kubectl {minor} in {seconds} s"
            ));
        }
        Err(why) => {
            say(&format!(
                "cluster: Kubernetes {minor} can't be downloaded, and is built: {why}"
            ));
            File::create(&failed).map_err(Error::file("create", failed))?;
        }
    }
    Ok(())
}

fn attempt(minor: &str, folder: &Path, link: &Path) -> Result<(), String> {
    // Before setup-envtest is built, which takes longer.
    reach()?;
    let program = test_support::tools::go_tool("setup-envtest").map_err(|e| e.to_string())?;
    let mut download = Command::new(program);
    download
        .args(["use", &format!("{minor}.x"), "--print", "path", "--bin-dir"])
        .arg(folder);
    let scratch = Scratch::new("download").map_err(|e| e.chain())?;
    let log = Output::File(scratch.path().join("log"));
    let mut download = Process::spawn(&download, log).map_err(|e| e.chain())?;
    let deadline = Instant::now() + DOWNLOAD_TIMEOUT;
    let code = loop {
        match download.exit_code() {
            Some(code) => break code,
            None if Instant::now() > deadline => {
                return Err(format!("it took longer than {DOWNLOAD_TIMEOUT:?}"));
            }
            None => std::thread::sleep(POLL),
        }
    };
    let output = download.output();
    let last = output.lines().last().unwrap_or_default();
    if code != 0 || !Path::new(last).join("etcd").is_file() {
        return Err(last.to_owned());
    }
    // One whose folder was removed.
    let _ = fs::remove_file(link);
    symlink(last, link).map_err(|error| error.to_string())
}

/// A proxy is asked by setup-envtest itself.
fn reach() -> Result<(), String> {
    if ["HTTPS_PROXY", "https_proxy"]
        .iter()
        .any(|name| set_variable(name).is_some())
    {
        return Ok(());
    }
    let failed = |error| format!("{} can't be reached: {error}", HOST.0);
    let mut addresses = HOST.to_socket_addrs().map_err(failed)?;
    let address = addresses.next().ok_or("it has no address")?;
    TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).map_err(failed)?;
    Ok(())
}
