//! An OCI registry on loopback: the program of `tools/registry`.

use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::tools::go_tool;

/// A running registry, empty at first, without authentication.
pub struct Registry {
    child: Child,
    /// `127.0.0.1:PORT`.
    pub address: String,
}

impl Registry {
    /// Starts one, on a port of its own.
    ///
    /// # Errors
    /// If the program cannot be built or does not listen.
    pub fn start() -> io::Result<Self> {
        let mut child = Command::new(go_tool("registry")?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut address = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut address)?;
        }
        let address = address.trim().to_owned();
        // Owned from here on: whatever happens next ends it.
        let registry = Self { child, address };
        if registry.address.is_empty() {
            return Err(io::Error::other("the registry does not listen"));
        }
        Ok(registry)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // Fails when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
