//! `run-operator contract`: prints the built-in contract file, and tries contract files against a service.

pub(crate) mod check;
mod findings;
pub(crate) mod report;
pub(crate) mod statements;

use std::process::ExitCode;

use run_operator::api::contract;
use run_operator::util::error_chain;

use crate::cli::ContractCommand;

use report::{Report, finish};

/// Runs one of the commands.
pub(crate) fn run(command: &ContractCommand) -> ExitCode {
    let report = match command {
        ContractCommand::Show => Ok(Report {
            text: contract::BUILTIN.to_owned(),
            good: true,
        }),
        ContractCommand::Check(args) => check::run(args).map_err(|error| error_chain(&error)),
    };
    finish(report)
}
