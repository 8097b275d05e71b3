//! Which tests `cargo test` leaves out, by name, and how each is run: the end of `make test`.

use std::io;
use std::path::PathBuf;

use clap::Args;
use test_support::source::suites::{TESTS, Test};

/// Compiled with it alone.
const PROOFS: &str = "proofs";

#[derive(Args)]
pub(crate) struct Options {
    /// What tests have skipped while they ran, a line each: `RUN_OPERATOR_SKIPPED` names the file to them.
    #[arg(long, value_name = "FILE")]
    skipped: Option<PathBuf>,
}

/// Prints the tests that an ordinary run doesn't have, and what was skipped in the last one.
pub(crate) fn run(options: &Options) -> Result<(), io::Error> {
    let of_proofs: Vec<&Test> = TESTS
        .iter()
        .filter(|test| test.feature.as_deref() == Some(PROOFS))
        .collect();
    let ignored: Vec<&Test> = TESTS.iter().filter(|test| test.ignored).collect();
    list(
        "left out: they are compiled only with the feature `proofs`; `make prove-bounded` runs them",
        &of_proofs,
    );
    list(
        "ignored: another test runs each in a process of its own",
        &ignored,
    );
    let skipped = match &options.skipped {
        Some(file) if file.exists() => std::fs::read_to_string(file)?,
        _ => String::new(),
    };
    if !skipped.is_empty() {
        println!("skipped on this machine; CI skips none:\n{skipped}");
    }
    Ok(())
}

fn list(why: &str, tests: &[&Test]) {
    println!("{} tests are {why}:", tests.len());
    for test in tests {
        println!("  {}", test.name);
    }
}
