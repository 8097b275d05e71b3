//! The signals that ask the program to end.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Registers for SIGINT (Ctrl-C) and SIGTERM, which the first process of a container would ignore otherwise. The future
/// ends at the first of them.
pub(crate) fn asked_to_end() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
