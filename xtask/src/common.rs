//! What more than one task needs: the error, files, programs, waiting.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use test_cluster::ServiceError;
use test_support::programs;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Interval of asking for what can't be waited for.
const POLL: Duration = Duration::from_millis(10);

pub(crate) type Outcome<T> = Result<T, Error>;

/// Why a task could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Cluster(#[from] test_cluster::Error),
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error("failed to talk to the API server")]
    Kubernetes(#[from] kube::Error),
    #[error("failed to ask a program over HTTP")]
    Http(#[from] reqwest::Error),
    #[error("failed to read what the kernel knows of a process")]
    Usage(#[from] procfs::ProcError),
    #[error("failed to read or write JSON")]
    Json(#[from] serde_json::Error),
    #[error("failed to make the resource definitions")]
    Crds(#[from] run_operator::api::crd::Error),
    #[error("failed to see within {} s that {what}; seen last:\n{seen}", .after.as_secs())]
    Wait {
        what: String,
        after: Duration,
        seen: String,
    },
    #[error("{0}")]
    Unexpected(String),
}

impl From<String> for Error {
    fn from(what: String) -> Self {
        Self::Unexpected(what)
    }
}

impl From<&str> for Error {
    fn from(what: &str) -> Self {
        Self::Unexpected(what.to_owned())
    }
}

/// Runs a command to its end outside the runtime; gives back what it prints.
pub(crate) async fn run(command: Command, stdin: &str) -> Outcome<String> {
    let stdin = stdin.to_owned();
    let ended = spawn_blocking(move || test_cluster::run(command, &stdin)).await;
    Ok(ended.map_err(|error| error.to_string())??)
}

/// A file's content.
pub(crate) fn read_bytes(path: &Path) -> Outcome<Vec<u8>> {
    Ok(std::fs::read(path).map_err(test_cluster::Error::file("read", path))?)
}

/// A file's text.
pub(crate) fn read(path: &Path) -> Outcome<String> {
    Ok(String::from_utf8_lossy(&read_bytes(path)?).into_owned())
}

/// Writes a file, and the folder for it.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Outcome<()> {
    let folder = path.parent().unwrap_or(path);
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, content));
    Ok(written.map_err(test_cluster::Error::file("write", path))?)
}

/// The paths in a folder, in their order.
pub(crate) fn list(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).and_then(|entries| {
        let paths = entries.map(|entry| Ok(entry?.path()));
        paths.collect::<std::io::Result<Vec<_>>>()
    });
    let mut paths = entries.map_err(test_cluster::Error::file("read", folder))?;
    paths.sort();
    Ok(paths)
}

/// The files below a folder, in their order; or the one file.
pub(crate) fn below(path: &Path) -> Outcome<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let inner = list(path)?;
    let inner: Outcome<Vec<_>> = inner.iter().map(|path| below(path)).collect();
    Ok(inner?.concat())
}

/// A file's YAML.
pub(crate) fn read_yaml(path: &Path) -> Outcome<Value> {
    let value = serde_saphyr::from_str(&read(path)?);
    value.map_err(|error| format!("{}: {error}", path.display()).into())
}

/// A value as YAML.
pub(crate) fn yaml(value: &Value) -> Outcome<String> {
    serde_saphyr::to_string(value).map_err(|error| format!("YAML: {error}").into())
}

/// A program of the workspace, in the folder where this one is.
pub(crate) fn program(name: &str) -> Outcome<PathBuf> {
    let missing = |path: PathBuf| format!("failed to find {}: `make` builds it", path.display());
    Ok(programs::find(name).map_err(missing)?)
}

/// Asks until the answer is there; `seen` is for the error.
pub(crate) async fn until<T>(
    what: &str,
    patience: Duration,
    seen: impl Fn() -> String,
    mut ask: impl AsyncFnMut() -> Outcome<Option<T>>,
) -> Outcome<T> {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        if began.elapsed() > patience {
            return Err(Error::Wait {
                what: what.to_owned(),
                after: patience,
                seen: seen(),
            });
        }
        sleep(POLL).await;
    }
}
