//! Layer 5: the binary. Reads flags and returns an exit code: 0 for success, 1 for a failed check, 2 for wrong flags or
//! files, and for whatever else prevents the start or ends the controller.

/// Gives memory back, and fragments less than the C library's.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

mod cli;
mod health;
mod start;

use std::process::ExitCode;

use clap::Parser;

use cli::{CheckArgs, Cli, Command};
use run_operator::checks::{self, Deployed, Finding, Target, Verdict};
use run_operator::util::error_chain;

/// Of any [`start::StartError`]; clap uses the same code.
const NO_START: u8 = 2;

fn main() -> ExitCode {
    // kube and reqwest can pull in two TLS providers, and then the first connection panics.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        eprintln!("run-operator: a TLS provider was installed before main");
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match cli.command {
        Command::Controller(args) => ended(start::controller(*args).map(|()| ExitCode::SUCCESS)),
        Command::Crds => print_crds(),
        Command::Check(args) => ended(check(&args)),
    }
}

/// Of an error it prints only the line that names it: clap's page doesn't suit a container's log.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match error.print() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let page = error.to_string();
    let what: Vec<&str> = page
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let what = what.join(" ");
    let what = what.strip_prefix("error: ").unwrap_or(&what);
    let command = page.lines().find_map(|line| line.strip_prefix("Usage: "));
    let words = command.unwrap_or("run-operator").split_whitespace();
    let command: Vec<&str> = words
        .take_while(|w| !w.starts_with(['[', '<', '-']))
        .collect();
    eprintln!("run-operator: {what} (see {} --help)", command.join(" "));
    ExitCode::from(NO_START)
}

fn ended(result: Result<ExitCode, start::StartError>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("run-operator: {}", error_chain(&error));
        ExitCode::from(NO_START)
    })
}

/// What `helm test` runs in a Pod; `kubectl runop doctor` says more.
fn check(args: &CheckArgs) -> Result<ExitCode, start::StartError> {
    let target = args.base_url.as_deref();
    let target = target.map(|base_url| Target::new("--base-url", base_url, &args.trial()));
    let target = target.transpose()?;
    let runtime = start::runtime()?;
    let checked = runtime.block_on(checked(args, target));
    runtime.shutdown_background();
    checked
}

async fn checked(args: &CheckArgs, target: Option<Target>) -> Result<ExitCode, start::StartError> {
    let client = start::plain_client().await?;
    let mut findings: Vec<Finding> = checks::api_server(&client).await.into();
    let mut taking = Vec::new();
    if findings[0].verdict == Verdict::Ok {
        let (namespace, name) = (&args.operator_namespace, &args.operator_name);
        let deployed = Deployed::read(&client, namespace, name).await;
        let deployed = deployed.ok().flatten();
        let workspaces =
            checks::workspaces(&client, &args.namespace, deployed.as_ref(), true).await;
        findings.extend(workspaces.findings);
        taking = workspaces.taking;
        findings.push(checks::at_work(&client, namespace, name).await);
    }
    if let Some(target) = target {
        findings.push(target.accepted().await);
    }
    print!("{}", checks::report(&findings, &taking));
    let good = checks::is_good(&findings);
    Ok(ExitCode::from(u8::from(!good)))
}

fn print_crds() -> ExitCode {
    match run_operator::api::crd::yaml() {
        Ok(yaml) => {
            print!("{yaml}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("run-operator: {}", error_chain(&error));
            ExitCode::FAILURE
        }
    }
}
