//! Writes every generated file of the repository. `make generate` runs it; the drift tests name it.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, text) in run_operator::api::crd::files()? {
        let path = root.join("crds").join(name);
        std::fs::write(&path, text)?;
        println!("{}", path.display());
    }
    Ok(())
}
