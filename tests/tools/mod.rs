//! The Go programs of `tools/`, built once by `.ci/go-tool`.

#![allow(
    dead_code,
    reason = "each suite that includes this module uses its own part of it"
)]

use std::io::{self, Write as _};
use std::process::{Command, Output, Stdio};

use crate::go_tool;

/// Runs the program of `tools/NAME` in the checkout with this input.
pub(crate) fn run(name: &str, args: &[&str], input: &str) -> Output {
    let mut command = Command::new(go_tool(name).unwrap());
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR"));
    output_of(command, input).unwrap()
}

/// Runs a program with this input.
pub(crate) fn output_of(mut command: Command, input: &str) -> io::Result<Output> {
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
