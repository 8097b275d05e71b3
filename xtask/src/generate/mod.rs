//! Writes every generated file of the repository: `make generate`. With `--check` it writes nothing and fails
//! when one of them differs from the code.

mod api;
mod argocd;
mod chart;
mod flags;
mod metrics;
mod reasons;
mod versions;

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Args;
use test_support::root;

pub(crate) use chart::{install, write_values};

/// A result whose error is printed, and ends the program.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

#[derive(Args)]
pub(crate) struct Options {
    /// Write nothing; fail when a file is out of date.
    #[arg(long)]
    check: bool,
}

/// A file below the repository, and what it is to hold.
struct Generated {
    path: PathBuf,
    text: String,
}

impl Generated {
    fn new(path: impl Into<PathBuf>, text: String) -> Self {
        let path = path.into();
        Self { path, text }
    }
}

/// Writes or compares them all.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    // One after the other: Helm reads what the steps before it have written.
    for step in [
        of_the_code,
        api::page,
        reasons::page,
        argocd::files,
        versions::files,
        chart::templates,
        chart::values,
        chart::manifests,
    ] {
        for file in step()? {
            settle(&file, options.check)?;
        }
    }
    Ok(())
}

/// Writes a file, or compares it.
fn settle(file: &Generated, check: bool) -> Outcome<()> {
    let path = root().join(&file.path);
    if !check {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(&path, &file.text)?;
        println!("{}", file.path.display());
    } else if std::fs::read_to_string(&path).unwrap_or_default() != file.text {
        let path = file.path.display();
        return Err(
            format!("{path} is out of date: run `make generate`, commit the result").into(),
        );
    }
    Ok(())
}

/// The files that are made from the types and tables in the code, without another program.
fn of_the_code() -> Outcome<Vec<Generated>> {
    let crds = run_operator::api::crd::files()?.into_iter();
    let crds = crds.map(|(name, text)| Generated::new(Path::new("crds").join(name), text));
    let metrics = Generated::new("docs/metrics.md", metrics::page());
    let flags = Generated::new("docs/flags.md", flags::page());
    Ok(crds.chain([metrics, flags]).collect())
}
