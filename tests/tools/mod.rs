//! The Go programs of `tools/`, built once by `.ci/go-tool`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program of `tools/NAME`.
pub(crate) fn program(name: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/go-tool");
    let mut command = Command::new(script);
    let built = command.arg(name).stderr(Stdio::inherit()).output().unwrap();
    assert!(
        built.status.success(),
        "{name} could not be built; is Go there?"
    );
    PathBuf::from(String::from_utf8(built.stdout).unwrap().trim())
}

/// Runs the program of `tools/NAME` in the checkout with this input.
pub(crate) fn run(name: &str, args: &[&str], input: &str) -> Output {
    let mut command = Command::new(program(name));
    command
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // One that ends without reading says why on its standard error.
    let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}
