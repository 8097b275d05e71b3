//! The crates that are built into the released programs, and their licence texts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use test_support::{cargo, root};

use super::{LICENCE, ReleaseError};

/// The packages whose programs are released.
const RELEASED: [&str; 2] = ["run-operator", "reference-service"];
/// Beginnings of the names of files with licences, in capitals.
const NAMES: [&str; 6] = [
    "LICENSE",
    "LICENCE",
    "COPYING",
    "NOTICE",
    "UNLICENSE",
    "COPYRIGHT",
];
/// C sources in crates, which have a licence of their own.
const INNER: [&str; 1] = ["jemalloc"];

/// A crate of somebody else's.
pub(super) struct Crate {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) licence: String,
    authors: String,
    folder: PathBuf,
}

/// Every crate in the programs for this target, by name; ours are left out.
pub(super) fn linked(triple: &str) -> Result<Vec<Crate>, ReleaseError> {
    let names = names(triple)?;
    let mut metadata = cargo();
    metadata.args(["metadata", "--locked", "--format-version=1"]);
    metadata.args(["--filter-platform", triple]);
    let metadata: Value =
        serde_json::from_str(&output(metadata)?).map_err(ReleaseError::Metadata)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let foreign = packages.filter(|package| package["source"].is_string());
    let mut crates: Vec<Crate> = foreign
        .map(read)
        .filter(|found| names.contains(&format!("{} v{}", found.name, found.version)))
        .collect();
    crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(crates)
}

/// `NAME vVERSION` of what cargo links, macros included.
fn names(triple: &str) -> Result<BTreeSet<String>, ReleaseError> {
    let mut tree = cargo();
    tree.args(["tree", "--locked", "--edges", "normal", "--target", triple]);
    tree.args(["--prefix", "none", "--format", "{p}"]);
    for package in RELEASED {
        tree.args(["--package", package]);
    }
    let tree = output(tree)?;
    let name = |line: &str| {
        line.split_whitespace()
            .take(2)
            .collect::<Vec<_>>()
            .join(" ")
    };
    Ok(tree.lines().map(name).collect())
}

fn read(package: &Value) -> Crate {
    let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
    let authors = package["authors"].as_array().into_iter().flatten();
    let authors: Vec<&str> = authors.filter_map(Value::as_str).collect();
    Crate {
        name: text("name"),
        version: text("version"),
        licence: text("license"),
        authors: authors.join(", "),
        folder: Path::new(&text("manifest_path"))
            .parent()
            .unwrap_or(Path::new(""))
            .to_owned(),
    }
}

impl Crate {
    /// Its licence files, by name. A crate without one gets the standard text of a licence that it names; `mit` is that
    /// of MIT.
    pub(super) fn texts(&self, mit: &str) -> Result<Vec<(String, String)>, ReleaseError> {
        let mut files = licence_files(&self.folder)?;
        for inner in INNER {
            let folder = self.folder.join(inner);
            if folder.is_dir() {
                let found = licence_files(&folder)?;
                files.extend(
                    found
                        .into_iter()
                        .map(|(name, text)| (format!("{inner}/{name}"), text)),
                );
            }
        }
        if !files.is_empty() {
            return Ok(files);
        }
        let text = if self.licence.contains("Apache-2.0") {
            let path = root().join(LICENCE);
            fs::read_to_string(&path).map_err(ReleaseError::file(&path))?
        } else if self.licence == "MIT" {
            let notice = format!("Copyright (c) {}", self.authors);
            mit.replace("Copyright (c) <year> <copyright holders>", &notice)
        } else {
            return Err(ReleaseError::NoLicence {
                name: self.name.clone(),
                version: self.version.clone(),
                licence: self.licence.clone(),
            });
        };
        Ok(vec![(
            "no file; the licence's standard text".to_owned(),
            text,
        )])
    }
}

fn licence_files(folder: &Path) -> Result<Vec<(String, String)>, ReleaseError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(ReleaseError::file(folder))? {
        let path = entry.map_err(ReleaseError::file(folder))?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let wanted = NAMES
            .iter()
            .any(|start| name.to_uppercase().starts_with(start));
        if wanted && path.is_file() {
            let text = fs::read(&path).map_err(ReleaseError::file(&path))?;
            found.push((name, String::from_utf8_lossy(&text).into_owned()));
        }
    }
    found.sort();
    Ok(found)
}

fn output(mut command: Command) -> Result<String, ReleaseError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(ReleaseError::file(&program))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(ReleaseError::Program { program, why })
    }
}
