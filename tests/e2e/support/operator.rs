//! The operator as a process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::exposition::{Series, series};
use super::wait::eventually;
use test_cluster::{Output, Process, free_port};

/// Time for the operator to end.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// Flags, where a test gives no others.
const USUAL: [(&str, &str); 4] = [
    ("--poll-min", "500ms"),
    ("--poll-max", "3s"),
    ("--log-filter", "trace"),
    // Tests share a control plane, and each has an operator: none may touch what all of them see.
    ("--cluster-workspaces", "false"),
];

/// A running operator.
pub(crate) struct Operator {
    process: Process,
    http: reqwest::Client,
    origin: String,
}

/// Command of the operator, for repeated starts.
#[derive(Clone)]
pub(crate) struct Recipe {
    pub(crate) kubeconfig: PathBuf,
    /// The namespace to watch; all, if there is none.
    pub(crate) namespace: Option<String>,
    pub(crate) args: Vec<String>,
    /// Further environment variables.
    pub(crate) variables: Vec<(&'static str, PathBuf)>,
    pub(crate) log: PathBuf,
    /// The soft and the hard limit of open files, where they are not the test's own.
    pub(crate) files: Option<(u64, u64)>,
}

impl Recipe {
    /// The program, behind a shell where its files are limited.
    fn program(&self) -> Command {
        let program = env!("CARGO_BIN_EXE_run-operator");
        let Some((soft, hard)) = self.files else {
            return Command::new(program);
        };
        let mut shell = Command::new("sh");
        let script = format!("ulimit -S -n {soft} && ulimit -H -n {hard} && exec \"$0\" \"$@\"");
        shell.args(["-c", &script, program]);
        shell
    }
}

impl Operator {
    /// Starts one and waits until its caches are in sync.
    pub(crate) async fn start(recipe: &Recipe) -> Self {
        let operator = Self::launch(recipe);
        operator.ready().await;
        operator
    }

    /// Starts one and waits for nothing: it may find no API server.
    pub(crate) fn launch(recipe: &Recipe) -> Self {
        let port = free_port().unwrap();
        let mut command = recipe.program();
        command
            .arg("controller")
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .args(&recipe.args)
            .env("KUBECONFIG", &recipe.kubeconfig)
            .envs(recipe.variables.iter().cloned());
        if let Some(namespace) = &recipe.namespace {
            command.args(["--namespace", namespace]);
        }
        for (flag, usual) in USUAL {
            if !recipe.args.iter().any(|arg| arg == flag) {
                command.args([flag, usual]);
            }
        }
        let process = Process::spawn(&command, Output::File(recipe.log.clone())).unwrap();
        Self {
            process,
            http: reqwest::Client::new(),
            origin: format!("http://127.0.0.1:{port}"),
        }
    }

    /// Waits until its caches are in sync.
    pub(crate) async fn ready(&self) {
        eventually("the operator is ready", async || {
            match self.fetch("readyz").await {
                Ok((200, _)) => Ok(()),
                other => Err(format!("{other:?} and the log {}", self.process.log_tail())),
            }
        })
        .await;
    }

    /// The answer of the health server: status and text.
    pub(crate) async fn fetch(&self, path: &str) -> Result<(u16, String), String> {
        let answer = self.get(path).await.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        let text = answer.text().await.map_err(|error| error.to_string())?;
        Ok((status, text))
    }

    /// The answer of the health server, with its headers.
    pub(crate) async fn get(&self, path: &str) -> reqwest::Result<reqwest::Response> {
        let url = format!("{}/{path}", self.origin);
        self.http.get(url).send().await
    }

    /// The value of one series of `/metrics`, by its name and labels as printed.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        let (_, text) = self.fetch("metrics").await.unwrap();
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let found = lines.find(|(name, _)| *name == series);
        let (_, value) = found.unwrap_or_else(|| panic!("no series {series} in {text}"));
        value.parse().unwrap()
    }

    /// The sum of those series of a metric that fit.
    pub(crate) async fn sum(&self, metric: &str, fits: impl Fn(&Series) -> bool) -> f64 {
        let (_, text) = self.fetch("metrics").await.unwrap();
        let all = series(&text).into_iter();
        let fitting = all.filter(|one| one.name == metric && fits(one));
        fitting.map(|one| one.value).sum()
    }

    /// The Runs that have a slot of a Workspace with a limit, those that wait for one, and the limit.
    pub(crate) async fn slots(&self) -> [f64; 3] {
        let mut slots = [0.0; 3];
        for (slot, which) in slots.iter_mut().zip(["active", "queued", "max_active"]) {
            let metric = format!("run_operator_workspace_{which}_runs");
            *slot = self.sum(&metric, |_| true).await;
        }
        slots
    }

    /// Sends a request for a path and reads nothing of the answer: the connection stays open. Its window and its
    /// segments are so small that the kernel holds some 40 KB, and not all of `/metrics`.
    pub(crate) async fn ask_and_read_nothing(&self, path: &str) -> TcpStream {
        let address = self.origin.strip_prefix("http://").unwrap();
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(1024).unwrap();
        socket.set_tcp_mss(536).unwrap();
        let to: SocketAddr = address.parse().unwrap();
        socket.connect(&to.into()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut stream = TcpStream::from_std(socket.into()).unwrap();
        let request = format!("GET /{path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// The pid of the operator itself.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process.kill9();
    }

    /// SIGSTOP: it holds still until [`Operator::go_on`].
    pub(crate) fn hold(&self) {
        self.process.hold();
    }

    /// SIGCONT.
    pub(crate) fn go_on(&self) {
        self.process.go_on();
    }

    /// Its exit code, if it has ended.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.process.exit_code()
    }

    /// SIGTERM.
    pub(crate) fn asked_to_end(&mut self) {
        self.process.terminate();
    }

    /// SIGTERM, then its exit code.
    pub(crate) async fn terminate(&mut self) -> Option<i32> {
        self.asked_to_end();
        self.ends().await
    }

    /// Waits until it has ended unasked, and returns its exit code.
    pub(crate) async fn ends(&mut self) -> Option<i32> {
        self.process.wait_exit(END_TIMEOUT).await
    }

    /// Its log.
    pub(crate) fn log(&self) -> String {
        self.process.output()
    }
}
