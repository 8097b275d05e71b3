//! Commands that run in a clone: bounded, and ended early where their output says enough.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::workshop::WorkshopError;

/// Time for one suite's marked tests, after which they count as hung. Most take seconds.
pub(super) const LIMIT: Duration = Duration::from_mins(10);
/// Time for one build, or for all tests of the program that is not broken.
pub(super) const LONG_LIMIT: Duration = Duration::from_mins(30);
/// How long a test waits for what a broken program may never do, in seconds. The unbroken one passes with it.
const PATIENCE: &str = "45";
/// Tests at a time: most of them wait.
const THREADS: &str = "4";
/// Pause between two looks at a command.
const POLL: Duration = Duration::from_millis(50);
/// Of a compiler's output, what is kept.
const LINES: usize = 20;

/// What a command has printed.
pub(super) struct Printed {
    /// None if it was killed before its end.
    pub(super) success: Option<bool>,
    pub(super) text: String,
}

impl Printed {
    /// What the compiler complains of.
    pub(super) fn errors(&self) -> String {
        let from = self
            .text
            .lines()
            .skip_while(|line| !line.starts_with("error"));
        from.take(LINES).collect::<Vec<_>>().join("\n")
    }
}

/// Runs a command at most so long, and until it has printed what is `enough`. Its output goes to the file: tests may
/// leave a process behind that holds a pipe open, while a file ends with its command.
pub(super) fn output(
    command: &mut Command,
    file: &Path,
    limit: Duration,
    enough: impl Fn(&str) -> bool,
) -> Result<Printed, WorkshopError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |source| WorkshopError::Run {
        program: program.clone(),
        source,
    };
    let file_error = |source| WorkshopError::File {
        file: PathBuf::from(file),
        source,
    };
    let log = File::create(file).map_err(file_error)?;
    let errors = log.try_clone().map_err(failed)?;
    command.process_group(0);
    command.env_remove("CARGO_TARGET_DIR").env_remove("CI");
    // `make prove` sets it: in full, storms alone outlast the limit of a trial.
    command.env_remove("RUN_OPERATOR_PROVE");
    command.env("CARGO_TERM_COLOR", "never");
    command.env("RUN_OPERATOR_TEST_PATIENCE", PATIENCE);
    command.env("RUST_TEST_THREADS", THREADS);
    command.stdin(Stdio::null()).stdout(log).stderr(errors);
    let mut child = command.spawn().map_err(failed)?;
    let began = Instant::now();
    let mut read = 0;
    let success = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break Some(status.success());
        }
        let written = fs::metadata(file).map_err(file_error)?.len();
        let more = std::mem::replace(&mut read, written) != written;
        if began.elapsed() > limit || more && enough(&text(file).map_err(file_error)?) {
            let group = format!("-{}", child.id());
            let kill = Command::new("kill").args(["-KILL", "--", &group]).status();
            kill.map_err(failed)?;
            child.wait().map_err(failed)?;
            break None;
        }
        std::thread::sleep(POLL);
    };
    let text = text(file).map_err(file_error)?;
    Ok(Printed { success, text })
}

fn text(file: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_runs_the_tests_in_the_size_of_every_change() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo ${RUN_OPERATOR_PROVE-unset}"]);
        command.env("RUN_OPERATOR_PROVE", "full");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        let printed = output(&mut command, &file, LIMIT, |_| false).unwrap();
        assert_eq!(printed.text, "unset\n");
    }
}
