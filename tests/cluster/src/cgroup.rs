//! A cgroup that is removed with the process that made it, however that one ends.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::process::Sweeper;

const ROOT: &str = "/sys/fs/cgroup";
/// The controllers without which the kubelet doesn't start.
const NEEDED: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// Script that removes `$@` once standard input ends: directories of cgroups, whose processes are ending at
/// this moment; for 10 s at most.
const SWEEP: &str = r#"
PATH=$PATH:/usr/bin:/bin
read -r _
tries=0
while [ "$tries" -lt 50 ]; do
    find "$@" -depth -type d -exec rmdir {} + 2>/dev/null
    left=
    for directory in "$@"; do [ ! -e "$directory" ] || left=yes; done
    [ "$left" ] || exit 0
    sleep 0.2
    tries=$((tries + 1))
done
"#;

/// A cgroup below the root, in each hierarchy there is, removed when this is dropped and when we die.
#[derive(Debug)]
pub(crate) struct Cgroup {
    name: String,
    directories: Vec<PathBuf>,
    _sweeper: Sweeper,
}

impl Cgroup {
    /// Makes a fresh one, with every controller that the root has.
    pub(crate) fn create() -> Result<Self, Error> {
        let name = format!("run-operator-{}", uuid::Uuid::new_v4().simple());
        let directories: Vec<PathBuf> = hierarchies()
            .iter()
            .map(|directory| directory.join(&name))
            .collect();
        // The sweeper first: were we killed between the two, the cgroup would stay.
        let sweeper = Sweeper::start(SWEEP, &directories)?;
        for directory in &directories {
            fs::create_dir(directory).map_err(Error::file("create", directory))?;
        }
        Ok(Self {
            name,
            directories,
            _sweeper: sweeper,
        })
    }

    /// Those controllers that the kubelet needs and this cgroup hasn't got: a container may not hand them
    /// down.
    pub(crate) fn lacks(&self) -> Vec<&'static str> {
        let mut found = String::new();
        for directory in &self.directories {
            // Version 2 lists them; in version 1 each hierarchy is named for what it holds.
            let listed = fs::read_to_string(directory.join("cgroup.controllers"));
            let hierarchy = directory.parent().and_then(Path::file_name);
            found.push_str(&listed.unwrap_or_default());
            found.push(',');
            found.push_str(&hierarchy.unwrap_or_default().to_string_lossy());
            found.push(',');
        }
        let found: Vec<&str> = found
            .split(|c: char| c == ',' || c.is_whitespace())
            .collect();
        let lacking = |needed: &&str| !found.contains(needed);
        NEEDED.into_iter().filter(lacking).collect()
    }

    /// Its path as seen from the root: `/NAME`.
    pub(crate) fn path(&self) -> String {
        format!("/{}", self.name)
    }

    /// The pids of every process in it, or in the part of it that is called `name`.
    pub(crate) fn pids(&self, name: Option<&str>) -> Vec<u32> {
        let mut pids = Vec::new();
        for directory in &self.directories {
            collect(directory, name, &mut pids);
        }
        pids.sort_unstable();
        pids.dedup();
        pids
    }
}

/// The one hierarchy of version 2, with its controllers handed down, or those of version 1.
fn hierarchies() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    if let Ok(controllers) = fs::read_to_string(root.join("cgroup.controllers")) {
        for controller in controllers.split_whitespace() {
            // The kubelet names the one that it misses.
            let _ = fs::write(
                root.join("cgroup.subtree_control"),
                format!("+{controller}"),
            );
        }
        return vec![root.to_owned()];
    }
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let directories = entries.map(|entry| entry.path());
    directories
        // `cpu` and the like are links to the hierarchy that holds several controllers.
        .filter(|path| !path.is_symlink() && path.join("cgroup.procs").is_file())
        .collect()
}

fn collect(directory: &Path, name: Option<&str>, pids: &mut Vec<u32>) {
    let here = name.is_none_or(|name| directory.ends_with(name));
    if here && let Ok(text) = fs::read_to_string(directory.join("cgroup.procs")) {
        pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    }
    let inner = if here { None } else { name };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            collect(&entry.path(), inner, pids);
        }
    }
}
