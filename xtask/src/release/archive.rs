//! Archives of programs, for people without a container engine.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use flate2::{Compression, GzBuilder};
use tar::{Builder, Header};
use test_support::root;

use super::{LICENCE, ReleaseError};

/// What is packed, and where to.
#[derive(Args)]
pub(crate) struct Options {
    /// The program.
    #[arg(long)]
    program: PathBuf,
    /// Its name in the archive.
    #[arg(long)]
    name: String,
    /// The archive: `NAME_VERSION_OS_ARCHITECTURE.tar.gz`.
    #[arg(long)]
    output: PathBuf,
}

/// Packs the program and the licence. Neither times nor owners are kept, so that the same files are the same archive.
pub(super) fn run(options: &Options) -> Result<(), ReleaseError> {
    let licence = root().join(LICENCE);
    let part = options.output.with_extension("part");
    let file = File::create(&part).map_err(ReleaseError::file(&part))?;
    let compressed = GzBuilder::new().write(file, Compression::default());
    let mut archive = Builder::new(compressed);
    append(&mut archive, &options.program, &options.name, 0o755)
        .map_err(ReleaseError::file(&options.program))?;
    append(&mut archive, &licence, LICENCE, 0o644).map_err(ReleaseError::file(&licence))?;
    let ended = archive
        .into_inner()
        .and_then(flate2::write::GzEncoder::finish);
    ended
        .and_then(|mut file| file.flush())
        .and_then(|()| fs::rename(&part, &options.output))
        .map_err(ReleaseError::file(&options.output))
}

fn append<W: io::Write>(
    archive: &mut Builder<W>,
    from: &Path,
    name: &str,
    mode: u32,
) -> io::Result<()> {
    let file = File::open(from)?;
    let mut header = Header::new_gnu();
    header.set_size(file.metadata()?.len());
    header.set_mode(mode);
    header.set_mtime(0);
    archive.append_data(&mut header, name, file)
}
