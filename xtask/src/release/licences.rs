//! `THIRD-PARTY-LICENSES`: the licences of everything in the images that is not ours.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::crates::{self, Crate};
use crate::common::{Outcome, read, write};

const RULE: &str =
    "================================================================================\n";
const INTRODUCTION: &str = "\
Licences of what is in the images and archives of run-operator, beyond its own code, whose licence (Apache-2.0) is in
LICENSE.

- The crates below are compiled into the programs `run-operator`, `kubectl-runop` or `reference-service`.
- The Rust standard library is linked into each; glibc and libgcc into those for Linux. glibc is under the LGPL 2.1: to
  link another glibc, build the programs from the repository, with the script .ci/program.
- The list of certification authorities is a file of the images.

Texts that are the same for several crates stand once, at the first.

";

/// Where the texts are that no crate has.
#[derive(Args)]
pub(crate) struct Options {
    /// The target of the programs.
    #[arg(long)]
    triple: String,
    /// A further target, of `kubectl-runop` only.
    #[arg(long = "tool-triple", value_name = "TRIPLE")]
    tool_triples: Vec<String>,
    /// The Rust toolchain's `share/doc/rust`.
    #[arg(long)]
    rust: PathBuf,
    /// The Go module of the certification authorities.
    #[arg(long)]
    roots: PathBuf,
    /// The file.
    #[arg(long)]
    output: PathBuf,
}

/// Writes the file.
pub(super) fn run(options: &Options) -> Outcome<()> {
    let crates = crates::linked(&options.triple, &options.tool_triples)?;
    let mut text = INTRODUCTION.to_owned();
    for Crate { name, licence, .. } in &crates {
        let _ = writeln!(text, "{name}: {licence}");
    }
    let mit = read(&options.rust.join("licenses/MIT.txt"))?;
    append_crates(&mut text, &crates, &mit)?;
    let library = without_tags(&read(&options.rust.join("COPYRIGHT-library.html"))?);
    section(&mut text, "The Rust standard library", &library);
    let gcc = options.rust.join("licenses/GCC-exception-3.1.txt");
    // Here and below: as Debian has them.
    let common = |name: &str| Path::new("/usr/share/common-licenses").join(name);
    for (title, path) in [
        ("glibc: notice", "/usr/share/doc/libc6/copyright".into()),
        (
            "glibc: GNU Lesser General Public License 2.1",
            common("LGPL-2.1"),
        ),
        ("libgcc: GCC Runtime Library Exception 3.1", gcc),
        ("libgcc: GNU General Public License 3", common("GPL-3")),
        (
            "Certification authorities: golang.org/x/crypto/x509roots/fallback",
            options.roots.join("LICENSE"),
        ),
        (
            "Certification authorities: Mozilla's list, under the Mozilla Public License 2.0",
            common("MPL-2.0"),
        ),
    ] {
        section(&mut text, title, &read(&path)?);
    }
    write(&options.output, text)
}

/// Each text once, with the crates that have it.
fn append_crates(text: &mut String, crates: &[Crate], mit: &str) -> Outcome<()> {
    let mut order: Vec<String> = Vec::new();
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for found in crates {
        for (file, content) in found.texts(mit)? {
            let content = content.replace("\r\n", "\n").trim().to_owned();
            let known = owners.entry(content.clone()).or_default();
            if known.is_empty() {
                order.push(content);
            }
            known.push(format!("{} ({file})", found.name));
        }
    }
    for content in order {
        section(text, &owners[&content].join("\n"), &content);
    }
    Ok(())
}

fn section(text: &mut String, title: &str, content: &str) {
    let _ = write!(text, "\n{RULE}{title}\n{RULE}\n{}\n", content.trim());
}

/// A page's text: without tags, and with at most one empty line at a time.
fn without_tags(html: &str) -> String {
    let mut text = String::new();
    for piece in html.split('<') {
        text.push_str(piece.split_once('>').map_or("", |(_, words)| words));
    }
    for (entity, character) in [
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&#60;", "<"),
        ("&#62;", ">"),
    ] {
        text = text.replace(entity, character);
    }
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.dedup_by(|a, b| a.trim().is_empty() && b.trim().is_empty());
    lines.join("\n")
}
