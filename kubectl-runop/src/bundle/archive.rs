//! A compressed archive in memory, whose files are under one folder.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

/// The folder that everything is in.
const FOLDER: &str = "run-operator-support";

/// An archive that files are added to.
pub(super) struct Archive {
    tar: tar::Builder<GzEncoder<Vec<u8>>>,
    /// The first failure, which the end returns.
    failed: Option<io::Error>,
}

impl Archive {
    pub(super) fn new() -> Self {
        Self {
            tar: tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default())),
            failed: None,
        }
    }

    /// Adds a text under a path in the folder.
    pub(super) fn add(&mut self, path: &str, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        let mut header = tar::Header::new_gnu();
        header.set_size(u64::try_from(text.len()).unwrap_or(u64::MAX));
        header.set_mode(0o644);
        let path = format!("{FOLDER}/{path}");
        if let Err(error) = self.tar.append_data(&mut header, path, text) {
            self.failed.get_or_insert(error);
        }
    }

    /// The bytes of the whole.
    pub(super) fn finish(mut self) -> io::Result<Vec<u8>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut gzip = self.tar.into_inner()?;
        gzip.flush()?;
        gzip.finish()
    }
}
