//! `contract`: prints what is in force by a contract file, and tries contract files against a service, a run, and the
//! service's own OpenAPI document.

mod live;
mod openapi;
mod run;
mod show;

use serde_json::json;

use run_operator::api::Contract;
use run_operator::api::contract::BUILTIN;
use run_operator::checks::{Finding, Target, Trial, Verdict, is_good};
use run_operator::contract_file;
use run_operator::service::RunId;
use run_operator::util::failed;

use crate::args::{
    ClusterArgs, ContractCheckArgs, ContractCommand, ContractDiffArgs, ContractFileArgs,
};
use crate::cluster::Cluster;
use crate::error::{End, ToolError};
use crate::print::{self, out};

pub(crate) use live::version;

pub(crate) async fn run(
    command: &ContractCommand,
    cluster: &ClusterArgs,
) -> Result<End, ToolError> {
    match command {
        ContractCommand::Show(args) => show(args),
        ContractCommand::Check(args) => check(args, cluster).await,
        ContractCommand::Init(args) => {
            let document = openapi::read(&args.openapi, &(&args.connection).into()).await?;
            let builtin = Contract::builtin().map_err(failed("use the built-in contract file"))?;
            out(&document.first_contract(&builtin))?;
            Ok(End::Succeeded)
        }
        ContractCommand::Diff(args) => diff(args).await,
    }
}

fn show(args: &ContractFileArgs) -> Result<End, ToolError> {
    let file = args.contract.as_deref();
    let contract = contract_file::load(file)?;
    out(&match file {
        None => BUILTIN.to_owned(),
        Some(_) => show::in_force(&contract, &contract_file::name(file)),
    })?;
    Ok(End::Succeeded)
}

async fn check(args: &ContractCheckArgs, cluster: &ClusterArgs) -> Result<End, ToolError> {
    let trial: Trial = (&args.trial).into();
    let file = contract_file::name(trial.contract.as_deref());
    let (subject, findings, matches) = if let Some(place) = &args.openapi {
        if args.base_url.is_some() {
            eprintln!(
                "Warning: with --openapi the service is not called; --base-url has no effect."
            );
        }
        let contract = contract_file::load(trial.contract.as_deref())?;
        let document = openapi::read(place, &trial).await?;
        let matches = "The document matches the contract.";
        (document.name(), document.findings(&contract), matches)
    } else {
        let base_url = args.base_url.as_deref().unwrap_or_default();
        let target = Target::new("--base-url", base_url, &trial)?;
        let (mut findings, answered) = version(&target).await;
        // The second request is made only if the first one was answered.
        findings.extend(live::workspace(&target, answered).await);
        findings.extend(one_run(args, cluster, &target).await?);
        let matches = match args.run {
            None => "The public part matches the contract.",
            Some(_) => "The public part and the run match the contract.",
        };
        (target.base_url.to_string(), findings, matches)
    };
    let good = is_good(&findings);
    let what = if args.openapi.is_some() {
        "openapi"
    } else {
        "baseURL"
    };
    let document = json!({what: subject, "contract": file, "good": good, "checks": findings});
    let text = || print::verdicts(&text(&subject, &file, &findings, matches));
    print::report(args.output, text, &document)?;
    Ok(End::of_checks(good))
}

/// Findings from the run that is asked for.
async fn one_run(
    args: &ContractCheckArgs,
    cluster: &ClusterArgs,
    target: &Target,
) -> Result<Vec<Finding>, ToolError> {
    let Some(id) = &args.run else {
        return Ok(Vec::new());
    };
    let id = RunId::parse(id).map_err(failed("use --run"))?;
    let who = if let Some(file) = &args.token_file {
        run::by_file(file, &target.contract)?
    } else {
        let cluster = Cluster::connect(cluster).await?;
        run::by_workspace(&cluster, &args.workspace, target).await?
    };
    Ok(run::findings(target, &who, &id).await)
}

fn text(subject: &str, file: &str, findings: &[Finding], matches: &str) -> String {
    let mut lines = vec![format!("{subject} against the contract file {file}")];
    lines.extend(findings.iter().map(Finding::to_string));
    let count = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    lines.push(match (count(Verdict::Fail), count(Verdict::NotTried)) {
        (0, _) => matches.to_owned(),
        (failed, 0) => format!("Against the contract: {failed}."),
        (failed, untried) => format!("Against the contract: {failed}. Not tried: {untried}."),
    });
    lines.join("\n") + "\n"
}

async fn diff(args: &ContractDiffArgs) -> Result<End, ToolError> {
    let trial: Trial = (&args.trial).into();
    let file = trial.contract.as_deref();
    let contract = contract_file::load(file)?;
    let Some([old, new]) = args.openapi.first_chunk() else {
        return Err(ToolError::usage(
            "--openapi takes the old document and the new one",
        ));
    };
    let old = openapi::read(old, &trial).await?;
    let new = openapi::read(new, &trial).await?;
    let (lines, good) = openapi::diff(&old, &new, &contract);
    let names = [&old, &new].map(openapi::Document::name);
    let file = contract_file::name(file);
    let mut text = format!(
        "From {} to {}, for the contract file {file}\n",
        names[0], names[1]
    );
    for line in &lines {
        text = format!("{text}{line}\n");
    }
    text.push_str(match lines.len() {
        0 => "Nothing changes that the operator relies on.\n",
        _ => "Nothing else changes that the operator relies on.\n",
    });
    out(&text)?;
    Ok(End::of_checks(good))
}
