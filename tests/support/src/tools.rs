//! The Go programs of `tools/`, built once into the cache by `.ci/go-tool`.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::root;

/// The path of the program that `tools/NAME` makes. Blocks, for minutes when it builds; reports on standard
/// error.
pub fn go_tool(name: &str) -> io::Result<PathBuf> {
    let mut script = Command::new(root().join(".ci/go-tool"));
    let built = script.arg(name).stderr(Stdio::inherit()).output()?;
    if !built.status.success() {
        let why = format!("tools/{name} could not be built, see above; is Go there?");
        return Err(io::Error::other(why));
    }
    let path = String::from_utf8_lossy(&built.stdout);
    Ok(PathBuf::from(path.trim()))
}

/// Runs the program of `tools/NAME` in the checkout with this input.
///
/// # Panics
/// If the program cannot be built or run.
pub fn run(name: &str, args: &[&str], input: &str) -> Output {
    let mut command = Command::new(go_tool(name).unwrap());
    command.args(args).current_dir(root());
    output_of(command, input).unwrap()
}

/// Runs a program with this input.
pub fn output_of(mut command: Command, input: &str) -> io::Result<Output> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    let input = input.to_owned();
    // Concurrent with the reading, or two full pipes would wait for each other. A program that ends without
    // reading reports the reason on its standard error.
    let writer = std::thread::spawn(move || stdin.map(|mut s| s.write_all(input.as_bytes())));
    let output = child.wait_with_output();
    let _ = writer.join();
    output
}
