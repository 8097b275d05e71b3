//! `run-operator support-bundle`: one file with what support needs to see, and without what it must not.

mod archive;
mod collect;
mod redact;

use std::path::PathBuf;
use std::process::ExitCode;

use run_operator::util::error_chain;

use crate::cli::BundleArgs;
use crate::contract_tool::report::{Report, block_on, finish};
use crate::doctor;
use crate::start::{self, StartError};

use archive::Archive;

/// Reason why there is no bundle.
#[derive(Debug, thiserror::Error)]
enum BundleError {
    #[error(transparent)]
    Cluster(#[from] StartError),
    #[error("failed to write {}", path.display())]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("failed to start the runtime")]
    Runtime(#[source] std::io::Error),
}

/// Runs the command.
pub(crate) fn run(args: &BundleArgs) -> ExitCode {
    let written = match block_on(write(args)) {
        Ok(written) => written,
        Err(error) => Err(BundleError::Runtime(error)),
    };
    finish(written.map_err(|error| error_chain(&error)))
}

/// Collects everything first: a file that is there is whole.
async fn write(args: &BundleArgs) -> Result<Report, BundleError> {
    let client = start::plain_client().await?;
    let mut archive = Archive::new();
    let namespace = args.namespace.as_deref();
    let namespace = namespace.unwrap_or_else(|| client.default_namespace());
    let collected = collect::all(&client, namespace, args, &mut archive).await;
    archive.add(
        "doctor.json",
        doctor::bundled(&client, namespace, args).await,
    );
    let missing = collected.missing;
    archive.add("README.txt", readme(args, &missing));
    let bytes = archive.finish().and_then(|bytes| {
        std::fs::write(&args.output, &bytes)?;
        Ok(bytes.len())
    });
    let bytes = bytes.map_err(|source| BundleError::Write {
        path: args.output.clone(),
        source,
    })?;
    let written = format!("{}: {bytes} bytes", args.output.display());
    let missing = missing.iter().map(|what| format!("not in it: {what}"));
    let lines: Vec<String> = std::iter::once(written).chain(missing).collect();
    let text = format!("{}\n", lines.join("\n"));
    Ok(Report { text, good: true })
}

fn readme(args: &BundleArgs, missing: &[String]) -> String {
    let workloads = if args.include_workloads {
        "Workloads are included, as --include-workloads asked."
    } else {
        "Of each workload there are its size and its SHA-256."
    };
    let missing: Vec<String> = missing.iter().map(|what| format!("- {what}")).collect();
    let missing = missing.join("\n");
    let missing = if missing.is_empty() {
        "- nothing"
    } else {
        &missing
    };
    format!(
        "A support bundle of run-operator {}.\n\n\
         It has no Secret: none was read. {workloads} Values of variables that are not the operator's own, and what\n\
         kubectl keeps of an applied manifest, are left out. Statuses, Events and logs have names, the service's texts\n\
         about runs and its request ids.\n\nWhat could not be read:\n{missing}\n",
        env!("CARGO_PKG_VERSION")
    )
}
