//! The flags of `contract` and `doctor`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::output::OutputFormat;
use super::plain_http::PlainHttpArgs;
use super::values::given;

/// The subcommands for contract files.
#[derive(Debug, Subcommand)]
pub enum ContractCommand {
    /// Prints the contract file that is compiled in, with its comments, as a template.
    Show,
    /// Tries the public part of a service against a contract file. Sends no token.
    ///
    /// GET /version must be answered with an accepted version, and GET /workspaces/current without a
    /// token be refused with a 401 problem. Makes these two requests and no other.
    /// Exit code: 0 matches the contract, 1 differs from it, 2 it can't be tried.
    Check(CheckArgs),
}

/// The service and the contract file. The environment is the controller's, so that in its container the
/// command without flags tries what the controller uses.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Base URL of the service, version segment included.
    #[arg(long, env = "RUN_OPERATOR_BASE_URL", value_parser = given, value_name = "URL")]
    pub base_url: String,

    /// The contract file, and the connection.
    #[command(flatten)]
    pub trial: TrialArgs,

    /// Form of the output.
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    pub output: OutputFormat,
}

/// The parts to check. The environment is the controller's, so that in its container the command without flags
/// tries what the controller uses.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// The namespace whose Workspaces are read, and in which a Run is applied without being stored; the current
    /// one, if unset.
    #[arg(short, long, value_parser = given, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Applies no Run, not even without storing it, and so needs no permission to create any. A namespace without
    /// a Workspace is then reported and is not an error.
    #[arg(long)]
    pub read_only: bool,

    /// The operator's namespace, where its Lease and its Deployment are.
    #[arg(long, env = "RUN_OPERATOR_LEADER_ELECT_NAMESPACE", default_value = "run-operator", value_parser = given, value_name = "NAME")]
    pub operator_namespace: String,

    /// The name of the operator's Lease and of its Deployment.
    #[arg(long, env = "RUN_OPERATOR_LEADER_ELECT_NAME", default_value = "run-operator", value_parser = given, value_name = "NAME")]
    pub operator_name: String,

    /// Base URL of the service, version segment included. Unset: the service is not tried.
    #[arg(long, env = "RUN_OPERATOR_BASE_URL", value_parser = given, value_name = "URL")]
    pub base_url: Option<String>,

    /// The contract file and the connection for the service.
    #[command(flatten)]
    pub trial: TrialArgs,

    /// Form of the output.
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub output: OutputFormat,
}

/// What goes into a support bundle.
#[derive(Debug, Args)]
pub struct BundleArgs {
    /// The file to write, such as bundle.tgz.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// The namespace whose objects are collected; the current one, if unset.
    #[arg(short, long, value_parser = given, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Collects the objects of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,

    /// The operator's namespace, where its Lease and its Deployment are.
    #[arg(long, env = "RUN_OPERATOR_LEADER_ELECT_NAMESPACE", default_value = "run-operator", value_parser = given, value_name = "NAME")]
    pub operator_namespace: String,

    /// The name of the operator's Lease and of its Deployment.
    #[arg(long, env = "RUN_OPERATOR_LEADER_ELECT_NAME", default_value = "run-operator", value_parser = given, value_name = "NAME")]
    pub operator_name: String,

    /// Includes the workloads as they are, in place of their hashes. They may hold what others must not see.
    #[arg(long)]
    pub include_workloads: bool,
}

/// The contract file and the connection for a service.
#[derive(Debug, Args)]
pub struct TrialArgs {
    /// The contract file; the one that is compiled in, if unset.
    #[arg(long, env = "RUN_OPERATOR_CONTRACT", value_name = "FILE")]
    pub contract: Option<PathBuf>,

    #[command(flatten)]
    pub plain_http: PlainHttpArgs,

    /// The CA certificates to trust for the service, PEM, instead of the system's.
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}
