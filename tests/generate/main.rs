//! Writes every generated file of the repository: `make generate`. With `--check` it writes nothing and
//! fails when one of them is not what the code says.

use std::error::Error;
use std::path::Path;

use clap::Parser;

mod argocd;

#[derive(Parser)]
struct Cli {
    /// Write nothing; fail when a file is out of date.
    #[arg(long)]
    check: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let cli = Cli::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = argocd::files(root)?;
    for (name, text) in run_operator::api::crd::files()? {
        files.push((Path::new("crds").join(name), text));
    }
    for (name, text) in files {
        let path = root.join(name);
        if !cli.check {
            std::fs::write(&path, text)?;
            println!("{}", path.display());
        } else if std::fs::read_to_string(&path).unwrap_or_default() != text {
            let path = path.display();
            return Err(
                format!("{path} is out of date: run `make generate`, commit the result").into(),
            );
        }
    }
    Ok(())
}
