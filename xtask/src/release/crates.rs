//! The crates that are built into the released programs, and their licence texts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use test_cluster::run;
use test_support::{cargo, root};

use crate::common::{Outcome, list, read};

/// Beginnings of the names of files with licences, in capitals.
const NAMES: [&str; 6] = [
    "LICENSE",
    "LICENCE",
    "COPYING",
    "NOTICE",
    "UNLICENSE",
    "COPYRIGHT",
];

/// A crate of somebody else's.
pub(super) struct Crate {
    /// `NAME VERSION`.
    pub(super) name: String,
    pub(super) licence: String,
    authors: String,
    folder: PathBuf,
}

/// What is in the images.
const PROGRAMS: [&str; 3] = [TOOL, "run-operator", "reference-service"];
const TOOL: &str = "kubectl-runop";

/// Every crate in the programs for a target, and in the tool for some more, by name; ours are left out.
pub(super) fn linked(triple: &str, tool_triples: &[String]) -> Outcome<Vec<Crate>> {
    let mut metadata = cargo();
    metadata.args(["metadata", "--locked", "--format-version=1"]);
    metadata.args(["--filter-platform", triple]);
    let mut names = names(&PROGRAMS, triple)?;
    for triple in tool_triples {
        metadata.args(["--filter-platform", triple]);
        names.extend(self::names(&[TOOL], triple)?);
    }
    let metadata: Value = serde_json::from_str(&run(metadata, "")?)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let foreign = packages.filter(|package| package["source"].is_string());
    let mut crates: Vec<Crate> = foreign.map(of).collect();
    crates.retain(|found| names.contains(&found.name));
    crates.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(crates)
}

/// `NAME VERSION` of what cargo links into these programs, macros included.
fn names(programs: &[&str], triple: &str) -> Outcome<BTreeSet<String>> {
    let mut tree = cargo();
    tree.args(["tree", "--locked", "--edges=normal", "--target", triple]);
    tree.args(["--prefix=none", "--format={p}"]);
    for program in programs {
        tree.args(["--package", program]);
    }
    let name = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next()?, words.next()?);
        Some(format!("{name} {}", version.strip_prefix('v')?))
    };
    Ok(run(tree, "")?.lines().filter_map(name).collect())
}

fn of(package: &Value) -> Crate {
    let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
    let authors = package["authors"].as_array().into_iter().flatten();
    let authors: Vec<&str> = authors.filter_map(Value::as_str).collect();
    let manifest = PathBuf::from(text("manifest_path"));
    Crate {
        name: format!("{} {}", text("name"), text("version")),
        licence: text("license"),
        authors: authors.join(", "),
        folder: manifest.parent().unwrap_or(Path::new("")).to_owned(),
    }
}

impl Crate {
    /// Its licence files, by name. A crate without one gets the standard text of a licence that it names; `mit` is that
    /// of MIT.
    pub(super) fn texts(&self, mit: &str) -> Outcome<Vec<(String, String)>> {
        let mut files = licence_files(&self.folder, "")?;
        // C sources in a crate, which have a licence of their own.
        let jemalloc = self.folder.join("jemalloc");
        if jemalloc.is_dir() {
            files.extend(licence_files(&jemalloc, "jemalloc/")?);
        }
        if !files.is_empty() {
            return Ok(files);
        }
        let text = if self.licence.contains("Apache-2.0") {
            read(&root().join("LICENSE"))?
        } else if self.licence == "MIT" {
            let notice = format!("Copyright (c) {}", self.authors);
            mit.replace("Copyright (c) <year> <copyright holders>", &notice)
        } else {
            let (name, licence) = (&self.name, &self.licence);
            let what = "has no licence text, and none is known: add it to the release's licences";
            return Err(format!("{name} ({licence}) {what}").into());
        };
        Ok(vec![(
            "no file; the licence's standard text".to_owned(),
            text,
        )])
    }
}

fn licence_files(folder: &Path, prefix: &str) -> Outcome<Vec<(String, String)>> {
    let mut found = Vec::new();
    for path in list(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let capitals = name.to_uppercase();
        if path.is_file() && NAMES.iter().any(|start| capitals.starts_with(start)) {
            found.push((format!("{prefix}{name}"), read(&path)?));
        }
    }
    Ok(found)
}
