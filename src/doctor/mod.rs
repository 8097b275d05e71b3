//! `run-operator doctor`: whether Runs can be submitted from here. It is what `helm test` runs.

mod cluster;
mod served;

use std::fmt::Write;
use std::process::ExitCode;

use run_operator::controller::chain;

use crate::cli::DoctorArgs;
use crate::contract_tool::check::{self, CheckError};
use crate::contract_tool::statements::{Finding, Statement, Verdict};
use crate::contract_tool::{DIFFERENT, TROUBLE, print};
use crate::start::{self, StartError};

const SERVICE: Statement = Statement {
    check: "service",
    title: "the service answers",
};

/// Why nothing can be tried.
#[derive(Debug, thiserror::Error)]
enum DoctorError {
    #[error(transparent)]
    Service(#[from] CheckError),
    #[error(transparent)]
    Cluster(#[from] StartError),
    #[error("failed to start the runtime")]
    Runtime(#[source] std::io::Error),
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs) -> ExitCode {
    let told = examine(args).map_err(|error| chain(&error));
    match told.and_then(|findings| print(&text(&findings)).map(|()| good(&findings))) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFERENT),
        Err(told) => {
            eprintln!("run-operator: {told}");
            ExitCode::from(TROUBLE)
        }
    }
}

fn examine(args: &DoctorArgs) -> Result<Vec<Finding>, DoctorError> {
    let target = match &args.base_url {
        Some(base_url) => Some(check::target(base_url, &args.trial)?),
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(DoctorError::Runtime)?;
    let findings = runtime.block_on(async {
        let client = start::plain_client().await?;
        let namespace = args.namespace.as_deref();
        let namespace = namespace.unwrap_or_else(|| client.default_namespace());
        let mut findings = cluster::findings(&client, namespace).await;
        match &target {
            Some(target) => findings.extend(check::version(target).await),
            None => findings.push(SERVICE.not_tried("there is no --base-url")),
        }
        Ok(findings)
    });
    // A resolver that hangs is not waited for.
    runtime.shutdown_background();
    findings
}

fn good(findings: &[Finding]) -> bool {
    findings.iter().all(|f| f.verdict != Verdict::Fail)
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let _ = writeln!(text, "{}", finding.line());
    }
    let failed = findings
        .iter()
        .filter(|f| f.verdict == Verdict::Fail)
        .count();
    let service_tried = findings.iter().all(|f| f.check != SERVICE.check);
    let _ = match (failed, service_tried) {
        (0, true) => writeln!(text, "Runs can be submitted from here."),
        (0, false) => writeln!(
            text,
            "The cluster is as it should be. For the service, give --base-url."
        ),
        (failed, _) => writeln!(text, "Not as it should be: {failed}."),
    };
    text
}
