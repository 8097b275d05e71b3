//! `run-operator doctor`: obstacles to running Runs. `helm test` runs it.

mod ask;
mod cluster;
mod operator;
mod served;
mod workspaces;

use std::fmt::Write;
use std::process::ExitCode;

use run_operator::util::error_chain;

use crate::cli::DoctorArgs;
use crate::contract_tool::check::{self, CheckError};
use crate::contract_tool::report::{Report, block_on, finish};
use crate::contract_tool::statements::{Finding, Statement, Verdict};
use crate::start::{self, StartError};

const SERVICE: Statement = Statement {
    check: "service",
    title: "the service answers",
};

/// Reason why nothing can be tried.
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
    let findings = examine(args).map_err(|error| error_chain(&error));
    finish(findings.map(|findings| Report {
        text: text(&findings),
        good: findings.iter().all(|f| f.verdict != Verdict::Fail),
    }))
}

fn examine(args: &DoctorArgs) -> Result<Vec<Finding>, DoctorError> {
    let target = match &args.base_url {
        Some(base_url) => Some(check::target(base_url, &args.trial)?),
        None => None,
    };
    block_on(async {
        let client = start::plain_client().await?;
        let namespace = args.namespace.as_deref();
        let namespace = namespace.unwrap_or_else(|| client.default_namespace());
        let mut findings = cluster::findings(&client, namespace, !args.read_only).await;
        if findings.first().is_some_and(|f| f.verdict == Verdict::Ok) {
            findings.push(workspaces::finding(&client, namespace, args.read_only).await);
            let (place, name) = (&args.operator_namespace, &args.operator_name);
            findings.push(operator::finding(&client, place, name).await);
        } else {
            findings
                .extend([workspaces::not_tried, operator::not_tried].map(|f| f(ask::NO_ANSWER)));
        }
        match &target {
            Some(target) => findings.extend(check::version(target).await),
            None => findings.push(SERVICE.not_tried("there is no --base-url")),
        }
        Ok(findings)
    })
    .map_err(DoctorError::Runtime)?
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let _ = writeln!(text, "{}", finding.line());
    }
    let count = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    let _ = match (count(Verdict::Fail), count(Verdict::NotTried)) {
        (0, 0) => writeln!(text, "All checks passed: Runs can be submitted from here."),
        (0, untried) => writeln!(text, "No check failed. Not tried: {untried}."),
        (failed, 0) => writeln!(text, "Failed: {failed}."),
        (failed, untried) => writeln!(text, "Failed: {failed}. Not tried: {untried}."),
    };
    text
}
