//! Result of a command, and how a command ends.

use std::io::{self, Write};
use std::process::ExitCode;

/// As of diff(1): the files differ, or the service differs from the contract.
const DIFFERENT: u8 = 1;
/// The command can't be carried out: a wrong file, a wrong URL.
const TROUBLE: u8 = 2;

/// Result of a command: its output, and whether no difference or failure was found.
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) good: bool,
}

/// Prints a report, or the error that prevented it.
pub(crate) fn finish(report: Result<Report, String>) -> ExitCode {
    match report.and_then(|report| print(&report.text).map(|()| report.good)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFERENT),
        Err(error) => {
            eprintln!("run-operator: {error}");
            ExitCode::from(TROUBLE)
        }
    }
}

/// Prints to standard output. A reader that closes early, such as `head`, is no error.
fn print(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("failed to write the output: {error}"))
        }
        _ => Ok(()),
    }
}

/// Runs a future in a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(future);
    // A resolver that hangs is not waited for.
    runtime.shutdown_background();
    Ok(result)
}
