//! Writes every generated file of the repository: `make generate`. With `--check` it writes nothing and fails
//! when one of them differs from the code.

mod api;
mod argocd;
mod chart;
mod flags;
mod metrics;
mod reasons;
mod versions;

use std::path::{Path, PathBuf};

use clap::Args;
use test_support::root;

pub(crate) use chart::{helm, install, values_of};

use crate::common::{Outcome, read, write};

#[derive(Args)]
pub(crate) struct Options {
    /// Write nothing; fail when a file is out of date.
    #[arg(long)]
    check: bool,
}

/// A file below the repository, and what it is to hold.
type Generated = (PathBuf, String);

/// Writes or compares them all.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    // One after the other: Helm reads what the steps before it have written.
    for step in [
        crds,
        metrics::page,
        flags::page,
        api::page,
        reasons::page,
        argocd::files,
        versions::files,
        chart::templates,
        chart::values,
        chart::manifests,
    ] {
        for (path, text) in step()? {
            let shown = path.display();
            let full = root().join(&path);
            if !options.check {
                write(&full, text)?;
                println!("{shown}");
            } else if read(&full).unwrap_or_default() != text {
                let what = "is out of date: run `make generate`, commit the result";
                return Err(format!("{shown} {what}").into());
            }
        }
    }
    Ok(())
}

fn crds() -> Outcome<Vec<Generated>> {
    let crds = run_operator::api::crd::files()?.into_iter();
    let crds = crds.map(|(name, text)| (Path::new("crds").join(name), text));
    Ok(crds.collect())
}

/// A page of the documents, whose part before the first section is its author's.
fn page(path: &str, sections: &str) -> Outcome<Vec<Generated>> {
    let text = read(&root().join(path))?;
    let (head, _) = text.split_once("\n## ").unwrap_or((&text, ""));
    Ok(vec![(path.into(), format!("{head}{sections}"))])
}

/// A cell of a table: in one line.
fn cell(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.replace('|', "\\|")
}
