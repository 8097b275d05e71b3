//! The program: `kubectl runop` finds it in the PATH by its name.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_runop::main()
}
