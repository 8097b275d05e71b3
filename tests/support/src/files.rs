//! The repository's files.

use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::root;

/// Every file of the repository: what Git tracks or would track; without Git, all but what is built.
pub static ALL: LazyLock<Vec<String>> = LazyLock::new(|| {
    let listed = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
        ])
        .current_dir(root())
        .output();
    let mut names: Vec<String> = match listed {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
            .split_terminator('\0')
            .map(str::to_owned)
            .collect(),
        Ok(_) | Err(_) => walked(root()),
    };
    names.retain(|name| root().join(name).is_file());
    names.sort();
    names
});

fn walked(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let built = path.ends_with("target") || path.ends_with(".git");
            if path.is_dir() && !built {
                folders.push(path);
            } else if path.is_file() {
                let name = path.strip_prefix(root()).unwrap();
                names.push(name.to_string_lossy().into_owned());
            }
        }
    }
    names
}

/// The files whose name ends so, after a dot.
pub fn ending(extension: &'static str) -> impl Iterator<Item = &'static String> {
    let ends = move |name: &&String| {
        let found = Path::new(name).extension();
        found.is_some_and(|e| e == extension)
    };
    ALL.iter().filter(ends)
}

/// The files below a folder that end so.
pub fn below(folder: &str, extension: &'static str) -> Vec<String> {
    let start = format!("{folder}/");
    ending(extension)
        .filter(|name| name.starts_with(&start))
        .cloned()
        .collect()
}

/// A file's text.
///
/// # Panics
/// If it cannot be read.
pub fn text(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A path without `.` and `..`: `docs/../README.md` without the detour.
pub fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                tidy.pop();
            }
            other => tidy.push(other),
        }
    }
    tidy
}
