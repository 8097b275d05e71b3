//! The flags of `check`.

use std::path::PathBuf;

use clap::Args;

use run_operator::checks::Trial;

use super::plain_http::PlainHttpArgs;
use super::values::given;

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
