//! What a test leaves out on this machine: said as it happens, listed at the end of `make test`, and refused in CI.

use std::fs::OpenOptions;
use std::io::Write;

use super::binaries::set_variable;

/// Names the file that the list is kept in.
const LIST: &str = "RUN_OPERATOR_SKIPPED";

/// The running test, or a part of it, can't be tried here.
///
/// # Panics
/// In CI (`CI=true`), where nothing is left out.
pub fn skipped(what: &str, because: &str) {
    let in_ci = set_variable("CI").is_some_and(|ci| ci == "true");
    assert!(
        !in_ci,
        "skipped, which CI doesn't allow: {what}, because {because}"
    );
    left_out(what, because);
}

/// The same where no machine could: an older Kubernetes lacks what is tried. Does not fail in CI.
pub(crate) fn left_out(what: &str, because: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let line = format!("SKIPPED: {test}: {what}, because {because}");
    // The harness would hold back the output of `eprintln!`. Fails when standard error is closed.
    let _ = writeln!(std::io::stderr(), "{line}");
    if let Some(list) = set_variable(LIST) {
        let list = OpenOptions::new().create(true).append(true).open(list);
        // One write a line: several tests append at a time.
        let _ = list.and_then(|mut list| list.write_all(format!("{line}\n").as_bytes()));
    }
}
