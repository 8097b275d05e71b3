//! The commands for contract files.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use run_operator::checks::Trial;

use super::{ReportFormat, given};

/// The subcommands for contract files.
#[derive(Debug, Subcommand)]
pub enum ContractCommand {
    /// Prints what is in force by a contract file, and marks what comes from it; else the built-in values.
    ///
    /// The output is a contract file itself, with comments.
    Show(ContractFileArgs),
    /// Tries a contract file against a service, one of its runs, or the service's own OpenAPI document.
    ///
    /// With --base-url: GET /version must be answered with an accepted version, and GET /workspaces/current without a
    /// token be refused with a 401 problem. With --run besides: GET /runs/{id} with a token, and what the operator would
    /// make of the answer. No token is printed, and without --run none is sent.
    /// With --openapi the service is not called: its document is compared with what the operator relies on and with the
    /// contract file. What is not understood in it is named.
    /// Exit code: 0 matches the contract, 1 differs from it, 2 it can't be tried.
    Check(ContractCheckArgs),
    /// Writes a first contract file from a service's OpenAPI 3.0 document, with a comment at each guess.
    Init(ContractInitArgs),
    /// Says what a change of a service's OpenAPI 3.0 document means for Runs.
    ///
    /// Exit code: 0 the new document matches the contract, 1 it differs from it, 2 they can't be compared.
    Diff(ContractDiffArgs),
}

/// The contract file.
#[derive(Debug, Args)]
pub struct ContractFileArgs {
    /// The contract file. Unset: the built-in one.
    #[arg(long, env = "RUN_OPERATOR_CONTRACT", value_name = "FILE")]
    pub contract: Option<PathBuf>,
}

/// What to try, and the contract file.
#[derive(Debug, Args)]
pub struct ContractCheckArgs {
    /// Base URL of the service, version segment included.
    #[arg(long, env = "RUN_OPERATOR_BASE_URL", value_parser = given(), required_unless_present = "openapi", value_name = "URL")]
    pub base_url: Option<String>,

    /// The service's OpenAPI 3.0 document, YAML or JSON: a file, or a URL, by the rules for the base URL.
    #[arg(long, value_parser = given(), conflicts_with = "run", value_name = "FILE|URL")]
    pub openapi: Option<String>,

    /// The id of a run, `.status.runID`, that is read with a token.
    #[arg(long, value_parser = given(), value_name = "ID")]
    pub run: Option<String>,

    /// The Workspace whose token is used for --run. It is sent only to the Workspace's own base URL.
    #[arg(long, value_parser = given(), default_value = "default", value_name = "NAME")]
    pub workspace: String,

    /// A file with the token for --run, in place of a Workspace's.
    #[arg(long, requires = "run", value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// How the service is tried.
    #[command(flatten)]
    pub trial: TrialArgs,

    /// Form of the output.
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub output: ReportFormat,
}

/// What to begin from.
#[derive(Debug, Args)]
pub struct ContractInitArgs {
    /// The service's OpenAPI 3.0 document, YAML or JSON: a file, or a URL, by the rules for the base URL.
    #[arg(long, value_parser = given(), value_name = "FILE|URL")]
    pub openapi: String,

    /// How a URL is read.
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// What to compare.
#[derive(Debug, Args)]
pub struct ContractDiffArgs {
    /// The service's OpenAPI 3.0 document before and after the change, each a file or a URL.
    #[arg(long, num_args = 2, required = true, value_parser = given(), value_names = ["OLD", "NEW"])]
    pub openapi: Vec<String>,

    /// The contract file, and how a URL is read.
    #[command(flatten)]
    pub trial: TrialArgs,
}

/// The contract file and the connection for a service. The variables are the controller's.
#[derive(Debug, Args)]
pub struct TrialArgs {
    /// The contract file.
    #[command(flatten)]
    pub file: ContractFileArgs,

    /// The connection.
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// The connection for a service.
#[derive(Debug, Args)]
pub struct ConnectionArgs {
    /// Accepts plain http to other machines, not only to loopback addresses.
    #[arg(long, env = "RUN_OPERATOR_ALLOW_INSECURE_HTTP")]
    pub allow_insecure_http: bool,

    /// Speaks HTTP/2 with a service that is reached by plain http (h2c).
    #[arg(long, env = "RUN_OPERATOR_H2C")]
    pub h2c: bool,

    /// The CA certificates to trust for the service, PEM, instead of the system's.
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

impl From<&TrialArgs> for Trial {
    fn from(args: &TrialArgs) -> Self {
        Self {
            contract: args.file.contract.clone(),
            ..Self::from(&args.connection)
        }
    }
}

impl From<&ConnectionArgs> for Trial {
    fn from(args: &ConnectionArgs) -> Self {
        Self {
            contract: None,
            ca_file: args.ca_file.clone(),
            allow_insecure_http: args.allow_insecure_http,
            h2c: args.h2c,
            service_proxy: None,
        }
    }
}
