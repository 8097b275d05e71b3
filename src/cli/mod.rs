//! The command line. Every flag of `controller` is an environment variable too.

mod check;
mod controller;
mod plain_http;
mod secure_metrics;
mod values;

use clap::{Parser, Subcommand};

pub use check::CheckArgs;
pub use controller::{ControllerArgs, LeaderElectionArgs, LogFormat};
pub use secure_metrics::SecureMetricsArgs;

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
