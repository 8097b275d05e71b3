//! How a wait goes on, on standard error: one line that is written over on a terminal, a line for each change elsewhere.

use std::io::{self, IsTerminal, Write};

use jiff::Timestamp;
use run_operator::decide::explain::summary;

use super::object::Seen;

/// Columns of a terminal that doesn't say how many it has.
const COLUMNS: usize = 80;

/// What is shown of one Run.
pub(super) struct Progress {
    /// Whether lines are written over.
    rewrites: bool,
    last: String,
    /// Whether a line stands that the next one is written over.
    open: bool,
}

impl Progress {
    /// For one Run on a terminal a line is written over; of several each change is a line.
    pub(super) fn new(runs: usize) -> Self {
        Self {
            rewrites: runs == 1 && io::stderr().is_terminal(),
            ..Self::lines()
        }
    }

    /// A line for each change, on a terminal too.
    pub(super) fn lines() -> Self {
        Self {
            rewrites: false,
            last: String::new(),
            open: false,
        }
    }

    /// Whether the line shows times that pass.
    pub(super) fn ticks(&self) -> bool {
        self.rewrites
    }

    /// Shows where the Run is.
    pub(super) fn show(&mut self, run: &Seen, now: Timestamp) {
        if self.rewrites {
            let line = summary::summary(run.stored(), now);
            let cut: String = line.chars().take(columns().saturating_sub(1)).collect();
            write(&format!("\r\x1b[K{cut}"));
            self.open = true;
        } else {
            let line = summary::state(run.stored());
            if line != self.last {
                write(&format!("{line}\n"));
                self.last = line;
            }
        }
    }

    /// A line of its own.
    pub(super) fn note(&mut self, text: &str) {
        self.close();
        if text != self.last {
            write(&format!("{text}\n"));
            text.clone_into(&mut self.last);
        }
    }

    /// Removes the line that is written over, so that a result can be printed.
    pub(super) fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            write("\r\x1b[K");
        }
    }
}

/// Standard error may be closed: then there is no reader.
fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush());
}

fn columns() -> usize {
    rustix::termios::tcgetwinsize(io::stderr())
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
        .unwrap_or(COLUMNS)
}
