//! Layer 5: the binary. Flags in, exit code out: 0 for a good end, 2 for wrong flags or files.

mod cli;
mod health;
mod start;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use run_operator::controller::chain;

/// A wrong flag, an unreadable contract file, a bad URL; clap uses the same code.
const WRONG_USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // kube and reqwest can pull in two TLS providers, and then the first connection panics.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        eprintln!("run-operator: a TLS provider was installed before main");
    }
    match cli.command {
        Command::Controller(args) => run(start::controller(*args)),
        Command::Crds => print_crds(),
    }
}

fn run(future: impl Future<Output = Result<(), start::StartError>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("run-operator: failed to start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(future);
    // Tasks that are left, such as open streams, have nothing to finish.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("run-operator: {}", chain(&error));
            ExitCode::from(WRONG_USAGE)
        }
    }
}

fn print_crds() -> ExitCode {
    match run_operator::api::crd::yaml() {
        Ok(yaml) => {
            print!("{yaml}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("run-operator: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}
