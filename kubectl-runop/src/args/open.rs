//! The arguments of `open`.

use clap::Args;

/// The Run whose page to open.
#[derive(Debug, Args)]
pub struct OpenArgs {
    /// Its name.
    #[arg(value_parser = super::run_name)]
    pub name: String,

    /// Only prints the address, as where standard output is no terminal.
    #[arg(long)]
    pub print: bool,
}
