//! Everything that runs for the demo. Dropping it ends it all, by pid.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::demo::board::Board;
use crate::demo::failure::Failure;
use crate::demo::terminal;
use crate::service::{Recipe, Service};
use test_cluster::{ControlPlane, Output, Process, Scratch, free_port, run};
use test_support::{programs, root};

/// Path of the examples, as the demo prints it.
const EXAMPLES: &str = "deploy/examples";

/// The parts of the demo. Dropped from top to bottom.
pub(crate) struct Stage {
    pub(crate) board: Board,
    pub(crate) operator: Option<Process>,
    pub(crate) service: Service,
    pub(crate) client: kube::Client,
    pub(crate) namespace: &'static str,
    pub(crate) control_plane: ControlPlane,
    /// The tokens that the Secret has held; the first is the example's own.
    tokens: Vec<String>,
    operator_port: u16,
    scratch: Scratch,
}

impl Stage {
    /// A control plane (built first, where there is none) and a service, both with nothing in them.
    pub(crate) async fn set() -> Result<Self, Failure> {
        let service = program("reference-service")?;
        program("run-operator")?;
        let token = example_token()?;
        let control_plane = ControlPlane::given_or_started().await?;
        let client = control_plane.client().await?;
        // The `default` namespace is used only in a control plane of our own.
        let own = control_plane.directory().is_some();
        let namespace = if own { "default" } else { "run-operator-demo" };
        let scratch = Scratch::new("demo")?;
        let service = Service::start(Recipe {
            program: &service,
            folder: scratch.path(),
            token: &token,
            record: true,
            tls: None,
        })
        .await?;
        let stage = Self {
            operator: None,
            service,
            operator_port: free_port()?,
            board: Board::start(&client, namespace),
            client,
            namespace,
            control_plane,
            tokens: vec![token],
            scratch,
        };
        Ok(stage)
    }

    /// True if the control plane was started by us, and ends with us.
    pub(crate) fn own_control_plane(&self) -> bool {
        self.control_plane.directory().is_some()
    }

    /// Starts the operator (again) and gives back its pid.
    pub(crate) fn start_operator(&mut self) -> Result<u32, Failure> {
        let mut command = Command::new(program("run-operator")?);
        command
            .arg("controller")
            .args(["--base-url", &self.service.base_url()])
            .args(["--namespace", self.namespace])
            .args(["--listen", &format!("127.0.0.1:{}", self.operator_port)])
            // Shorter than in production (5 s to 5 min), so that the demo is not slow.
            .args(["--poll-min", "1s", "--poll-max", "5s"])
            .env("KUBECONFIG", self.control_plane.kubeconfig());
        let process = Process::spawn(&command, Output::File(self.operator_log_path()))?;
        let pid = process.pid();
        self.operator = Some(process);
        Ok(pid)
    }

    /// kill -9.
    pub(crate) fn kill_operator(&mut self) {
        if let Some(mut operator) = self.operator.take() {
            operator.kill9();
        }
    }

    /// URL of the operator's health and metrics.
    pub(crate) fn metrics_url(&self) -> String {
        format!("http://127.0.0.1:{}/metrics", self.operator_port)
    }

    /// The log file of both operators.
    pub(crate) fn operator_log_path(&self) -> PathBuf {
        self.scratch.path().join("operator.log")
    }

    /// All that both operators have written.
    pub(crate) fn operator_log(&self) -> String {
        let bytes = std::fs::read(self.operator_log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Runs kubectl, shows the command as a user would type it, and what it prints.
    pub(crate) async fn kubectl(&self, args: &[&str]) -> Result<(), Failure> {
        terminal::kubectl(args);
        terminal::note(self.quiet_kubectl(args, "").await?.trim_end());
        Ok(())
    }

    /// Installs what `run-operator crds` prints, and waits until the API server serves it.
    pub(crate) async fn install_crds(&self) -> Result<(), Failure> {
        terminal::command("run-operator crds | kubectl apply -f -");
        let mut print = Command::new(program("run-operator")?);
        print.arg("crds");
        let yaml = finish(print, String::new()).await?;
        let applied = self.quiet_kubectl(&["apply", "-f", "-"], &yaml).await?;
        terminal::note(applied.trim_end());
        let names = applied
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        let crds = names.filter(|name| name.starts_with("customresourcedefinition"));
        let mut wait = vec!["wait", "--for=condition=Established", "--timeout=60s"];
        wait.extend(crds);
        self.quiet_kubectl(&wait, "").await?;
        Ok(())
    }

    /// Applies example files, named without their directory and extension.
    pub(crate) async fn apply_examples(&self, names: &[&str]) -> Result<(), Failure> {
        let files: Vec<String> = names
            .iter()
            .map(|name| format!("{EXAMPLES}/{name}.yaml"))
            .collect();
        let mut args = vec!["apply"];
        for file in &files {
            args.extend(["-f", file]);
        }
        let _held = self.board.hold().await;
        self.kubectl(&args).await
    }

    /// Puts a token into the Secret of the examples. It is handed over on standard input: an argument
    /// could be read by every user of the machine.
    pub(crate) async fn rotate_token(&mut self, token: String) -> Result<(), Failure> {
        terminal::command(
            "kubectl create secret generic run-operator-token --from-file=token=/dev/stdin \\\n       \
             --dry-run=client -o yaml | kubectl apply -f -",
        );
        let create = [
            "create",
            "secret",
            "generic",
            "run-operator-token",
            "--from-file=token=/dev/stdin",
            "--dry-run=client",
            "-o",
            "yaml",
        ];
        let held = self.board.hold().await;
        let yaml = self.quiet_kubectl(&create, &token).await?;
        let applied = self.quiet_kubectl(&["apply", "-f", "-"], &yaml).await?;
        terminal::note(applied.trim_end());
        drop(held);
        self.tokens.push(token);
        Ok(())
    }

    /// Lets every token that the Secret has held expire now.
    pub(crate) async fn expire_token(&self) -> Result<(), Failure> {
        for token in &self.tokens {
            self.service.expire(token).await?;
        }
        Ok(())
    }

    /// True if a token is in the operators' log.
    pub(crate) fn token_in_log(&self) -> bool {
        let log = self.operator_log();
        self.tokens.iter().any(|token| log.contains(token))
    }

    /// Runs kubectl in the demo's namespace and gives back what it prints.
    pub(crate) async fn quiet_kubectl(
        &self,
        args: &[&str],
        stdin: &str,
    ) -> Result<String, Failure> {
        let mut command = self.control_plane.kubectl();
        command
            .current_dir(root())
            .args(["--namespace", self.namespace])
            .args(args);
        finish(command, stdin.to_owned()).await
    }
}

/// Runs a command to its end outside the runtime.
async fn finish(command: Command, stdin: String) -> Result<String, Failure> {
    match tokio::task::spawn_blocking(move || run(command, &stdin)).await {
        Ok(output) => Ok(output?),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// A program of the workspace, in the folder where this one is.
fn program(name: &str) -> Result<PathBuf, Failure> {
    programs::find(name).map_err(Failure::FindProgram)
}

/// The token of the example Secret: the service is made to accept it, so that the file needs no change.
fn example_token() -> Result<String, Failure> {
    let path = root().join(EXAMPLES).join("secret.yaml");
    let read = std::fs::read_to_string(&path);
    let text = read.map_err(|source| Failure::ReadExample {
        path: path.clone(),
        source,
    })?;
    let secret: Option<Value> = serde_saphyr::from_str(&text).ok();
    let token = secret
        .as_ref()
        .and_then(|secret| secret.pointer("/stringData/token")?.as_str());
    token.map(str::to_owned).ok_or(Failure::FindToken(path))
}
