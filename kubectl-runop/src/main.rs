//! The names of the program.

use std::path::Path;

/// Field manager of what these commands write.
pub(super) const MANAGER: &str = "kubectl-runs";
/// The program's name as kubectl's plugin.
pub(super) const PLUGIN: &str = "kubectl-runs";

/// Whether the program was started as kubectl's plugin: by its name.
pub(crate) fn is_plugin() -> bool {
    let program = std::env::args_os().next().unwrap_or_default();
    let stem = Path::new(&program).file_stem().unwrap_or_default();
    stem == PLUGIN
}
