//! The command line. Every flag of `controller` is an environment variable too.

mod controller;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use run_operator::checks::Trial;

pub use controller::{ControllerArgs, LeaderElectionArgs, LogFormat, SecureMetricsArgs};
use controller::{PlainHttpArgs, given};

/// Turns Run objects into runs at the Run Orchestration Service: at most one for each object, and none
/// left behind.
#[derive(Debug, Parser)]
#[command(name = "run-operator", version, max_term_width = 100)]
// Without a command: one line and exit code 2, as for every other mistake.
#[command(arg_required_else_help = false)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs the controller until SIGTERM.
    Controller(Box<ControllerArgs>),
    /// Prints the custom resource definitions and the admission policy, for `kubectl apply -f -`.
    Crds,
    /// Checks whether Runs of a namespace have what they need, as `helm test` does. Changes nothing.
    ///
    /// Asks the API server for its version and for the CRDs' fields; reads the namespace's Workspaces, the operator's
    /// Deployment and Lease; and sends GET /version to the service, without a token. What the credentials may not read is
    /// reported as not tried, and never as ok. The last line names the Workspaces that take Runs. `kubectl runop doctor`
    /// checks more, from your own machine.
    /// Exit code: 0 no check failed, 1 a check failed, 2 the checks can't be made.
    Check(CheckArgs),
}

/// What to check. The environment is the controller's, so that in its container the command tries what the controller
/// uses.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The namespace whose Workspaces are read.
    #[arg(short, long, value_parser = given, value_name = "NAME")]
    pub namespace: String,

    /// The operator's namespace, where its Lease and its Deployment are.
    #[arg(long, env = "RUN_OPERATOR_LEADER_ELECT_NAMESPACE", default_value = "run-operator", value_parser = given, value_name = "NAME")]
    pub operator_namespace: String,

    /// The name of the operator's Lease and of its Deployment.
    #[arg(long, env = "RUN_OPERATOR_LEADER_ELECT_NAME", default_value = "run-operator", value_parser = given, value_name = "NAME")]
    pub operator_name: String,

    /// Base URL of the service, version segment included. Unset: the service is not tried.
    #[arg(long, env = "RUN_OPERATOR_BASE_URL", value_parser = given, value_name = "URL")]
    pub base_url: Option<String>,

    /// The contract file; the one that is compiled in, if unset.
    #[arg(long, env = "RUN_OPERATOR_CONTRACT", value_name = "FILE")]
    pub contract: Option<PathBuf>,

    #[command(flatten)]
    pub plain_http: PlainHttpArgs,
}

impl CheckArgs {
    /// How the service is tried.
    pub fn trial(&self) -> Trial {
        Trial {
            contract: self.contract.clone(),
            ca_file: None,
            allow_insecure_http: self.plain_http.allow_insecure_http,
            h2c: self.plain_http.h2c,
        }
    }
}
