//! Processes that end with the one that started them, however that one ends.
//!
//! A destructor doesn't run when a test binary is killed, and none runs for a static. So every process here
//! has a small shell for a parent, which holds a pipe from us as its standard input. When we end, for
//! whatever reason, the pipe ends, and the shell kills its child by pid. Signals are sent through the shell
//! too: only it can be sure that the pid is still its child's.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use test_support::tools::output_of;

use super::error::Error;

/// Interval of checking a condition that can't be waited for.
pub const POLL: Duration = Duration::from_millis(20);

/// Runs `"$@"`, prints its pid, and ends with its exit code. Each line on standard input is a signal for
/// it; the end of standard input is SIGKILL.
const SUPERVISE: &str = r#"
exec 3<&0 </dev/null
"$@" >&2 3<&- &
child=$!
{
    while read -r signal; do kill -s "$signal" "$child"; done
    kill -s KILL "$child"
} <&3 >/dev/null 2>&1 &
watch=$!
exec 3<&-
echo "$child"
exec >&-
wait "$child"
code=$?
kill -s KILL "$watch" 2>/dev/null
exit "$code"
"#;

/// Target of a process's standard output and standard error, both of them.
#[derive(Debug, Clone)]
pub enum Output {
    /// Appended to this file.
    File(PathBuf),
    /// Our own standard error.
    Inherit,
}

/// A supervised process: killed when this is dropped, and when the process that holds this ends.
///
/// Its standard input is empty. It runs in a process group of its own, so that Ctrl-C in a terminal reaches
/// only us, and we end it in order.
#[derive(Debug)]
pub struct Process {
    supervisor: Child,
    signals: Option<ChildStdin>,
    pid: u32,
    log: Option<PathBuf>,
}

impl Process {
    /// Starts `command`: its program, arguments, working directory and the variables set or removed on
    /// it are taken over (`env_clear` can't be seen from outside, and is not).
    ///
    /// A program that doesn't exist is no error here: it ends at once with exit code 127.
    pub fn spawn(command: &Command, output: Output) -> Result<Self, Error> {
        let spawn_error = || Error::spawn(command.get_program().to_string_lossy());
        let (stderr, log) = match output {
            Output::Inherit => (Stdio::inherit(), None),
            Output::File(path) => {
                let file = File::options().create(true).append(true).open(&path);
                let file = file.map_err(Error::file("open", &path))?;
                (Stdio::from(file), Some(path))
            }
        };
        let mut supervisor = shell(SUPERVISE);
        supervisor
            .arg(command.get_program())
            .args(command.get_args())
            .stdout(Stdio::piped())
            .stderr(stderr);
        if let Some(directory) = command.get_current_dir() {
            supervisor.current_dir(directory);
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => supervisor.env(name, value),
                None => supervisor.env_remove(name),
            };
        }
        let mut supervisor = supervisor.spawn().map_err(spawn_error())?;
        let pid = read_pid(&mut supervisor).map_err(spawn_error())?;
        Ok(Self {
            signals: supervisor.stdin.take(),
            supervisor,
            pid,
            log,
        })
    }

    /// The pid of the process itself, not of its supervisor.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its output up to now; empty when it shares our standard error.
    pub fn output(&self) -> String {
        let bytes = self.log.as_ref().and_then(|path| fs::read(path).ok());
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    }

    /// The last 20 lines of what it has written.
    pub fn log_tail(&self) -> String {
        let text = self.output();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Sends SIGTERM and doesn't wait.
    pub fn terminate(&mut self) {
        self.signal("TERM");
    }

    /// Sends SIGSTOP: it holds still, connections and all, until [`Process::go_on`].
    pub fn hold(&self) {
        self.signal("STOP");
    }

    /// Sends SIGCONT.
    pub fn go_on(&self) {
        self.signal("CONT");
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill9(&mut self) {
        drop(self.signals.take());
        // The supervisor is our own child; waiting for it fails only when it was waited for already.
        let _ = self.supervisor.wait();
    }

    /// Its exit code, as a shell reports it (128 + the signal that ended it), or none while it runs.
    pub fn exit_code(&mut self) -> Option<i32> {
        let status = self.supervisor.try_wait().ok().flatten()?;
        // A supervisor without an exit code was itself killed, which only an outsider does.
        Some(status.code().unwrap_or(-1))
    }

    /// Waits for its end; none when it still runs after `timeout`.
    pub async fn wait_exit(&mut self, timeout: Duration) -> Option<i32> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(code) = self.exit_code() {
                return Some(code);
            }
            if Instant::now() >= deadline {
                return None;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn signal(&self, name: &str) {
        if let Some(mut signals) = self.signals.as_ref() {
            // A closed pipe means that the process has ended, which is what was asked for.
            let _ = writeln!(signals, "{name}");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// A shell that runs `script` with our pipe as its standard input, out of reach of the terminal's Ctrl-C.
fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", script, "sh"])
        .stdin(Stdio::piped())
        .process_group(0);
    command
}

/// A [`shell`] without output that removes the given paths, at the latest when we end.
#[derive(Debug)]
pub(crate) struct Sweeper(Child);

impl Sweeper {
    pub(crate) fn start(
        script: &str,
        named: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Self, Error> {
        let mut sweeper = shell(script);
        sweeper
            .args(named)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        sweeper.spawn().map(Self).map_err(Error::spawn("/bin/sh"))
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Some(mut stdin) = self.0.stdin.take() {
            // If it had ended, all that it removes would be gone already.
            let _ = writeln!(stdin, "now");
        }
        let _ = self.0.wait();
    }
}

/// The line with which the supervisor names its child.
fn read_pid(supervisor: &mut Child) -> std::io::Result<u32> {
    let mut line = String::new();
    if let Some(stdout) = supervisor.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    line.trim().parse().map_err(std::io::Error::other)
}

/// Runs a command to its end with `input` as its standard input; gives back its standard output.
pub fn run(command: Command, input: &str) -> Result<String, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = output_of(command, input).map_err(Error::spawn(&*program))?;
    if !output.status.success() {
        return Err(Error::Run {
            program,
            code: output.status.code().unwrap_or(-1),
            message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
