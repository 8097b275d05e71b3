//! `run-operator contract`: prints and compares contract files, and tries them against a service.

pub(crate) mod check;
mod diff;
mod findings;
mod meaning;
mod report;
pub(crate) mod statements;

use std::io::{self, Write};
use std::process::ExitCode;

use run_operator::api::contract;
use run_operator::util::error_chain;

use crate::cli::ContractCommand;

use report::Report;

/// As of diff(1): the files differ, or the service differs from the contract.
pub(crate) const DIFFERENT: u8 = 1;
/// The command can't be carried out: a wrong file, a wrong URL.
pub(crate) const TROUBLE: u8 = 2;

/// Runs one of the commands.
pub(crate) fn run(command: &ContractCommand) -> ExitCode {
    let report = match command {
        ContractCommand::Show => Ok(Report {
            text: contract::BUILTIN.to_owned(),
            good: true,
        }),
        ContractCommand::Diff(args) => diff::run(args).map_err(|error| error_chain(&error)),
        ContractCommand::Check(args) => check::run(args).map_err(|error| error_chain(&error)),
    };
    match report.and_then(|report| print(&report.text).map(|()| report.good)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFERENT),
        Err(told) => {
            eprintln!("run-operator: {told}");
            ExitCode::from(TROUBLE)
        }
    }
}

/// Prints to standard output. A reader that closes early, such as `head`, is no error.
pub(crate) fn print(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("failed to write the output: {error}"))
        }
        _ => Ok(()),
    }
}
