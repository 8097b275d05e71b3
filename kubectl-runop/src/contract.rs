//! `contract`: prints the built-in contract file, and tries contract files against a service.

mod live;

use serde_json::json;

use run_operator::api::contract;
use run_operator::checks::{Finding, Target, Verdict, is_good};

use crate::args::{ContractCheckArgs, ContractCommand, ReportFormat};
use crate::error::{End, ToolError};
use crate::print::out;

pub(crate) use live::version;

pub(crate) async fn run(command: &ContractCommand) -> Result<End, ToolError> {
    match command {
        ContractCommand::Show => {
            out(contract::BUILTIN)?;
            Ok(End::Succeeded)
        }
        ContractCommand::Check(args) => check(args).await,
    }
}

async fn check(args: &ContractCheckArgs) -> Result<End, ToolError> {
    let target = Target::new(&args.base_url, &(&args.trial).into())?;
    let (mut findings, answered) = version(&target).await;
    // The second request is made only if the first one was answered.
    findings.extend(live::workspace(&target, answered).await);
    let good = is_good(&findings);
    out(&match args.output {
        ReportFormat::Text => text(&target, &findings),
        ReportFormat::Json => {
            let document = json!({
                "baseURL": target.base_url.as_str(),
                "contract": target.contract_file,
                "good": good,
                "checks": findings,
            });
            format!("{document:#}\n")
        }
    })?;
    Ok(End::of_checks(good))
}

fn text(target: &Target, findings: &[Finding]) -> String {
    let (base_url, file) = (&target.base_url, &target.contract_file);
    let mut lines = vec![format!("{base_url} against the contract file {file}")];
    lines.extend(findings.iter().map(Finding::to_string));
    let count = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    lines.push(match (count(Verdict::Fail), count(Verdict::NotTried)) {
        (0, _) => "The public part matches the contract.".to_owned(),
        (failed, 0) => format!("Against the contract: {failed}."),
        (failed, untried) => format!("Against the contract: {failed}. Not tried: {untried}."),
    });
    lines.join("\n") + "\n"
}
