//! Errors of the control plane.

use std::path::PathBuf;
use std::time::Duration;

/// Errors of starting and using a control plane.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing to run on, and no way to make it.
    #[error(
        "there is no Kubernetes control plane to run on: install Go {go} or newer (etcd, kube-apiserver and \
         kubectl {version} are then downloaded or built once, in about five minutes), or set KUBEBUILDER_ASSETS to a \
         directory that holds them, or set RUN_OPERATOR_TEST_KUBECONFIG to the kubeconfig of a test cluster"
    )]
    FindBinaries {
        go: &'static str,
        version: &'static str,
    },
    #[error("KUBERNETES is {choice:?}, and can be {known}; without it the newest is built")]
    ChooseRelease { choice: String, known: String },
    #[error("failed to find a cache directory: set XDG_CACHE_HOME or HOME")]
    FindCache,
    #[error("KUBEBUILDER_ASSETS names {}, which is not a directory", .0.display())]
    ReadAssets(PathBuf),
    #[error("failed to build {tool} with Go (exit code {code}):\n{log}")]
    Build {
        tool: &'static str,
        code: i32,
        log: String,
    },
    #[error("failed to {action} {}", .path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("failed to start {program}")]
    Spawn {
        program: String,
        #[source]
        source: std::io::Error,
    },
    #[error("failed to find a free port on 127.0.0.1 between 10240 and 29999")]
    FindPort,
    #[error("{program} ended with exit code {code} before it was ready; its log ends with:\n{log}")]
    Exited {
        program: &'static str,
        code: i32,
        log: String,
    },
    #[error("{program} was not ready within {} s; its log ends with:\n{log}", .after.as_secs())]
    NotReady {
        program: &'static str,
        after: Duration,
        log: String,
    },
    #[error(
        "there is no node to run Pods on: {because} (install containerd and runc, and be root; \
         RUN_OPERATOR_TEST_NODE=off leaves out what needs one)"
    )]
    FindNode { because: String },
    #[error("RUN_OPERATOR_TEST_NODE is {0:?}, and can be required, off or auto")]
    ReadPlace(String),
    #[error("the cluster of RUN_OPERATOR_TEST_KUBECONFIG is not ours to stop or start")]
    NotOurs,
    #[error("the API server was stopped while it was starting")]
    Stopped,
    #[error("failed to start the runtime or its signal handlers")]
    Runtime(#[source] std::io::Error),
    #[error("failed to read the kubeconfig")]
    ReadKubeconfig(#[source] kube::config::KubeconfigError),
    #[error("failed to talk to the API server")]
    Request(#[source] kube::Error),
    #[error("{program} failed with exit code {code}: {message}")]
    Run {
        program: String,
        code: i32,
        message: String,
    },
}

impl Error {
    /// Makes an error of an I/O error, with the operation and the file; for `map_err`.
    pub fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }

    /// The same of a program that can't be started.
    pub fn spawn(program: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let program = program.into();
        move |source| Self::Spawn { program, source }
    }

    /// The error and everything behind it in one line, for a panic or a terminal.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut next = std::error::Error::source(self);
        while let Some(cause) = next {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            next = cause.source();
        }
        text
    }
}
