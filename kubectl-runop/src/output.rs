//! Forms of output.

use clap::ValueEnum;

/// Forms of a command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people.
    Text,
    /// One JSON document, for pipelines.
    Json,
}
