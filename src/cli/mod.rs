//! The command line. Every flag of `controller` is an environment variable too.

mod controller;
mod output;
mod plain_http;
pub mod runs;
mod secure_metrics;
mod tools;
mod values;

use clap::{Parser, Subcommand};

pub use controller::{ControllerArgs, LeaderElectionArgs, LogFormat};
pub use output::OutputFormat;
pub use secure_metrics::SecureMetricsArgs;
pub use tools::{BundleArgs, CheckArgs, ContractCommand, DoctorArgs, TrialArgs};

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
    /// Finds what prevents Runs: cluster, CRDs, permissions, Workspaces, operator, service. Changes nothing.
    ///
    /// Asks the API server for its version, for the CRDs' fields, for other API groups with our names, and for the
    /// permissions of the operator's service account; applies a Run without storing it (server-side dry run); reads the
    /// namespace's Workspaces and Runs, the operator's Lease and Deployment; and sends GET /version to the service,
    /// without a token. What the credentials may not read or ask is reported as not tried, and never as ok. The last
    /// line names the Workspaces that take Runs.
    /// Exit code: 0 no check failed, 1 a check failed, 2 the checks can't be made.
    Doctor(DoctorArgs),
    /// Writes one file for support: objects, Events, the operator's Deployment, Lease, logs and metrics, versions.
    ///
    /// Reads no Secret. Workloads are in it as hashes, unless --include-workloads. What the credentials may not read is
    /// named and left out. Exit code: 0 written, 2 not.
    SupportBundle(BundleArgs),
    /// Prints and tries contract files, which contain the service's names and numbers.
    #[command(subcommand, arg_required_else_help = false)]
    Contract(ContractCommand),
    /// Submits, shows, explains, awaits and changes Runs, as `kubectl runs`: with your own kubeconfig and permissions.
    ///
    /// Exit codes: 0 succeeded, or as --for says; 1 ended otherwise; 2 wrong usage, or the API server refused;
    /// 3 a person has to act (Stalled); 4 deleted, or deleted and created again; 124 the timeout passed;
    /// 130 Ctrl-C or SIGTERM.
    #[command(arg_required_else_help = false)]
    Runs(Box<runs::RunsArgs>),
}
