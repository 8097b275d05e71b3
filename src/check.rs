//! `run-operator check`, which `helm test` runs in a Pod: whether Runs of a namespace have what they need, as far as it
//! can be seen from there. `kubectl runop doctor` says more.

use std::process::ExitCode;

use run_operator::checks::{self, Finding, Target, Verdict};

use crate::cli::CheckArgs;
use crate::start::{self, StartError};

/// Prints what was found.
pub(crate) async fn run(args: &CheckArgs) -> Result<ExitCode, StartError> {
    let target = args.base_url.as_deref();
    let target = target.map(|base_url| Target::new(base_url, &args.trial()));
    let target = target.transpose()?;
    let client = start::plain_client().await?;
    let mut findings: Vec<Finding> = checks::api_server(&client).await.into();
    let mut taking = Vec::new();
    if findings[0].verdict == Verdict::Ok {
        let workspaces = checks::workspaces(&client, &args.namespace, true).await;
        findings.extend(workspaces.findings);
        taking = workspaces.taking;
        let (namespace, name) = (&args.operator_namespace, &args.operator_name);
        findings.push(checks::at_work(&client, namespace, name).await);
    }
    if let Some(target) = target {
        findings.push(target.accepted().await);
    }
    print!("{}", checks::report(&findings, &taking));
    let good = checks::is_good(&findings);
    Ok(ExitCode::from(u8::from(!good)))
}
