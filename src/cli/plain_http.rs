//! Flags about plain http.

use clap::Args;

/// Services that are reached by plain http.
#[derive(Clone, Copy, Debug, Args)]
pub struct PlainHttpArgs {
    /// Accepts plain http to other machines; without it only loopback addresses may be plain.
    #[arg(long, env = "RUN_OPERATOR_ALLOW_INSECURE_HTTP")]
    pub allow_insecure_http: bool,

    /// Speaks HTTP/2 with services that are reached by plain http (h2c), such as a sidecar; they must all speak it.
    #[arg(long, env = "RUN_OPERATOR_H2C")]
    pub h2c: bool,
}
