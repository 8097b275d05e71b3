//! What more than one task needs: the error, files, programs, waiting, signals, lines of output.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use futures::future::select_all;
use serde_json::Value;
use test_cluster::ServiceError;
use test_support::programs;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
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
    Crds(#[from] run_operator::util::Failed),
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

/// Does a task that waits. A build that Ctrl-C has interrupted is not waited for: it ends with us.
pub(crate) fn block_on<T>(task: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime = Runtime::new().map_err(test_cluster::Error::Runtime)?;
    let result = runtime.block_on(task);
    runtime.shutdown_background();
    result
}

/// A line on standard output, at once.
pub(crate) fn print(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // Fails when standard output is closed.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// Ctrl-C, SIGTERM, or the end of the terminal.
pub(crate) struct Interrupt(Vec<Signal>);

impl Interrupt {
    pub(crate) fn new() -> Outcome<Self> {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ];
        let signals: Result<_, _> = kinds.into_iter().map(signal).collect();
        Ok(Self(signals.map_err(test_cluster::Error::Runtime)?))
    }

    /// Ready when one of them has come.
    pub(crate) async fn asked(&mut self) {
        let any = self.0.iter_mut().map(|signal| Box::pin(signal.recv()));
        select_all(any).await;
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
    parse_yaml(&read(path)?, &path.to_string_lossy())
}

/// YAML as a value; `file` is for the error.
pub(crate) fn parse_yaml(text: &str, file: &str) -> Outcome<Value> {
    serde_saphyr::from_str(text).map_err(|error| format!("{file}: {error}").into())
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

/// Asks until it is so; `seen` is for the error.
pub(crate) async fn until(
    what: &str,
    patience: Duration,
    seen: impl Fn() -> String,
    is: impl AsyncFn() -> Outcome<bool>,
) -> Outcome<()> {
    let began = Instant::now();
    while !is().await? {
        if began.elapsed() > patience {
            return Err(Error::Wait {
                what: what.to_owned(),
                after: patience,
                seen: seen(),
            });
        }
        sleep(POLL).await;
    }
    Ok(())
}
