//! Everything that runs for the demo. Dropping it ends it all, by pid.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::Command;

use http::Method;
use serde_json::json;
use test_cluster::{
    ControlPlane, Options, Output, Process, Recipe, ReferenceService, Scratch, free_port,
};
use test_support::root;

use super::board::{Board, PATIENCE};
use super::terminal;
use crate::common::{Outcome, program, read, read_yaml, run, until};
use crate::service::{ServiceRun, runs};

/// Where everything is.
pub(crate) const NAMESPACE: &str = "default";
/// Path of the examples, as the demo prints it.
const EXAMPLES: &str = "deploy/examples";

/// The parts of the demo. Dropped from top to bottom.
pub(crate) struct Stage {
    pub(crate) board: Board,
    pub(crate) operator: Option<Process>,
    pub(crate) service: ReferenceService,
    pub(crate) client: kube::Client,
    pub(crate) control_plane: ControlPlane,
    /// The tokens that the Secret has held; the first is the example's own.
    tokens: Vec<String>,
    operator_port: u16,
    scratch: Scratch,
}

impl Stage {
    /// A control plane (built first, where there is none) and a service, both with nothing in them.
    pub(crate) async fn set() -> Outcome<Self> {
        let service = program("reference-service")?;
        program("run-operator")?;
        let token = example_token()?;
        let control_plane = ControlPlane::start(Options::default()).await?;
        let client = control_plane.client().await?;
        let scratch = Scratch::new("demo")?;
        let recipe = Recipe {
            program: &service,
            folder: scratch.path(),
            token: &token,
            record: true,
            tls: None,
        };
        let service = ReferenceService::start(recipe, &[]).await?;
        Ok(Self {
            operator: None,
            service,
            operator_port: free_port()?,
            board: Board::start(&client),
            client,
            control_plane,
            tokens: vec![token],
            scratch,
        })
    }

    /// Starts the operator (again) and gives back its pid.
    pub(crate) fn start_operator(&mut self) -> Outcome<u32> {
        let mut command = Command::new(program("run-operator")?);
        command
            .arg("controller")
            .args(["--base-url", &self.service.base_url()])
            .args(["--namespace", NAMESPACE, "--schedules"])
            .args(["--listen", &format!("127.0.0.1:{}", self.operator_port)])
            // Shorter than in production (5 s to 5 min), so that the demo is not slow.
            .args(["--poll-min", "1s", "--poll-max", "5s"])
            .env("KUBECONFIG", self.control_plane.kubeconfig());
        let process = Process::spawn(&command, Output::File(self.operator_log_path()))?;
        let pid = process.pid();
        self.operator = Some(process);
        Ok(pid)
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
        read(&self.operator_log_path()).unwrap_or_default()
    }

    /// Runs kubectl, shows the command as a user would type it, and what it prints.
    pub(crate) async fn kubectl(&self, args: &[&str]) -> Outcome<()> {
        terminal::kubectl(args);
        terminal::note(&self.quiet_kubectl(args, "").await?);
        Ok(())
    }

    /// Installs what `run-operator crds` prints, and waits until the API server serves it.
    pub(crate) async fn install_crds(&self) -> Outcome<()> {
        terminal::command("run-operator crds | kubectl apply -f -");
        let mut print = Command::new(program("run-operator")?);
        print.arg("crds");
        let yaml = run(print, "").await?;
        let applied = self.quiet_kubectl(&["apply", "-f", "-"], &yaml).await?;
        terminal::note(&applied);
        let wait = ["wait", "crd", "--all", "--for=condition=Established"];
        self.quiet_kubectl(&wait, "").await?;
        Ok(())
    }

    /// Applies example files, named without their directory and extension.
    pub(crate) async fn apply_examples(&self, names: &[&str]) -> Outcome<()> {
        let files = names.iter().map(|name| format!("{EXAMPLES}/{name}.yaml"));
        let files: Vec<String> = files.collect();
        let mut args = vec!["apply"];
        for file in &files {
            args.extend(["-f", file]);
        }
        let _held = self.board.hold().await;
        self.kubectl(&args).await
    }

    /// Puts a token into the Secret of the examples. It is handed over on standard input: an argument
    /// could be read by every user of the machine.
    pub(crate) async fn rotate_token(&mut self, token: String) -> Outcome<()> {
        let create = "create secret generic run-operator-token --from-file=token=/dev/stdin";
        let print = "--dry-run=client -o yaml";
        terminal::command(&format!(
            "kubectl {create} \\\n       {print} | kubectl apply -f -"
        ));
        let args: Vec<&str> = create.split(' ').chain(print.split(' ')).collect();
        let held = self.board.hold().await;
        let yaml = self.quiet_kubectl(&args, &token).await?;
        let applied = self.quiet_kubectl(&["apply", "-f", "-"], &yaml).await?;
        terminal::note(&applied);
        drop(held);
        self.tokens.push(token);
        Ok(())
    }

    /// Lets every token that the Secret has held expire now.
    pub(crate) async fn expire_token(&self) -> Outcome<()> {
        for token in &self.tokens {
            let expired = json!({"expiresAfterMs": 0});
            let path = format!("tokens/{token}");
            self.service.send(Method::PATCH, &path, expired).await?;
        }
        Ok(())
    }

    /// True if a token is in the operators' log.
    pub(crate) fn token_in_log(&self) -> bool {
        let log = self.operator_log();
        self.tokens.iter().any(|token| log.contains(token))
    }

    /// The run of the Run with this name.
    pub(crate) async fn at_the_service(&self, name: &str) -> Outcome<ServiceRun> {
        let key = self.board.now().runs.remove(name).unwrap_or_default();
        let mut runs = runs(&self.service).await?.into_iter();
        let found = runs.find(|run| run.idempotency_key == key);
        Ok(found.ok_or_else(|| format!("the service has no run for {name}"))?)
    }

    /// Waits until `wanted` is true of the service's runs, and returns them.
    pub(crate) async fn service_until(
        &self,
        what: &str,
        wanted: impl Fn(&[ServiceRun]) -> bool,
    ) -> Outcome<Vec<ServiceRun>> {
        let seen = RefCell::default();
        let shown = || format!("{:#?}", seen.borrow());
        until(what, PATIENCE, shown, async || {
            seen.replace(runs(&self.service).await?);
            Ok(wanted(&seen.borrow()))
        })
        .await?;
        Ok(seen.into_inner())
    }

    /// Runs kubectl and gives back what it prints.
    pub(crate) async fn quiet_kubectl(&self, args: &[&str], stdin: &str) -> Outcome<String> {
        let mut command = self.control_plane.kubectl();
        command.current_dir(root()).args(args);
        run(command, stdin).await
    }
}

/// The token of the example Secret: the service is made to accept it, so that the file needs no change.
fn example_token() -> Outcome<String> {
    let path = root().join(EXAMPLES).join("secret.yaml");
    let secret = read_yaml(&path)?;
    let token = secret["stringData"]["token"].as_str();
    let token = token.ok_or("the example's Secret has no token")?;
    Ok(token.to_owned())
}
