//! `run-operator doctor`: obstacles to running Runs. `helm test` runs it.

mod allowed;
pub(crate) mod ask;
mod cluster;
mod deployment;
mod names;
mod operator;
mod permissions;
mod served;
mod shared;
mod stalled;
mod workspaces;

use std::fmt::Write;
use std::process::ExitCode;

use kube::Client;
use run_operator::util::error_chain;
use serde_json::json;

use crate::cli::{BundleArgs, DoctorArgs, OutputFormat};
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

/// What was found, and which Workspaces take Runs.
#[derive(Default)]
struct Examined {
    findings: Vec<Finding>,
    taking: Vec<String>,
    /// The service's URL in the operator's Deployment.
    base_url: Option<String>,
}

impl Examined {
    /// Whether no check failed.
    fn good(&self) -> bool {
        self.findings.iter().all(|f| f.verdict != Verdict::Fail)
    }
}

/// What is examined in the cluster.
struct Scope<'a> {
    namespace: &'a str,
    /// Applies no Run, not even without storing it.
    read_only: bool,
    operator_namespace: &'a str,
    operator_name: &'a str,
}

/// The findings of the API server as a document, for a support bundle. Only reads.
pub(crate) async fn bundled(client: &Client, namespace: &str, args: &BundleArgs) -> String {
    let scope = Scope {
        namespace,
        read_only: true,
        operator_namespace: &args.operator_namespace,
        operator_name: &args.operator_name,
    };
    let examined = in_cluster(client, &scope).await;
    document(&examined)
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs) -> ExitCode {
    let examined = examine(args).map_err(|error| error_chain(&error));
    finish(examined.map(|examined| {
        let text = match args.output {
            OutputFormat::Text => text(&examined),
            OutputFormat::Json => document(&examined),
        };
        Report {
            text,
            good: examined.good(),
        }
    }))
}

fn examine(args: &DoctorArgs) -> Result<Examined, DoctorError> {
    let given = match &args.base_url {
        Some(base_url) => Some(check::target(base_url, &args.trial)?),
        None => None,
    };
    block_on(async {
        let client = start::plain_client().await?;
        let namespace = args.namespace.as_deref();
        let scope = Scope {
            namespace: namespace.unwrap_or_else(|| client.default_namespace()),
            read_only: args.read_only,
            operator_namespace: &args.operator_namespace,
            operator_name: &args.operator_name,
        };
        let mut examined = in_cluster(&client, &scope).await;
        let service = match &given {
            Some(target) => check::version(target).await,
            None => vec![untried(examined.base_url.as_deref())],
        };
        examined.findings.extend(service);
        Ok(examined)
    })
    .map_err(DoctorError::Runtime)?
}

/// The operator's own URL is not asked from here: what its Pod reaches may be out of reach for this machine.
fn untried(base_url: Option<&str>) -> Finding {
    let operators = base_url.map(|url| format!("; the operator's is {url}"));
    SERVICE.not_tried(&format!(
        "there is no --base-url{}",
        operators.unwrap_or_default()
    ))
}

/// The findings of the API server. Without an answer of it nothing more is tried.
async fn in_cluster(client: &Client, scope: &Scope<'_>) -> Examined {
    let namespace = scope.namespace;
    let mut findings = cluster::findings(client, namespace, !scope.read_only).await;
    if findings.first().is_none_or(|f| f.verdict != Verdict::Ok) {
        let rest = [
            names::not_tried,
            shared::not_tried,
            workspaces::not_tried,
            stalled::not_tried,
            operator::not_tried,
            permissions::not_tried,
            allowed::not_tried,
        ];
        findings.extend(rest.map(|not_tried| not_tried(ask::NO_ANSWER)));
        return Examined {
            findings,
            ..Examined::default()
        };
    }
    findings.push(names::finding(client).await);
    let shared = shared::examine(client, namespace).await;
    let may_lack = scope.read_only || !shared.taking.is_empty();
    findings.push(shared.finding);
    let mut own = workspaces::examine(client, namespace, may_lack).await;
    findings.push(own.finding.clone());
    findings.push(stalled::finding(client, namespace).await);
    let (place, name) = (scope.operator_namespace, scope.operator_name);
    findings.push(operator::finding(client, place, name).await);
    let mut base_url = None;
    match deployment::read(client, place, name).await {
        Ok(configured) => {
            base_url = configured.values("--base-url").into_iter().next();
            let may = permissions::finding(client, place, &configured, namespace, &own.secrets);
            findings.push(may.await);
            findings.push(allowed::finding(&configured, &own.base_urls));
        }
        Err(why) => findings.extend([permissions::not_tried(&why), allowed::not_tried(&why)]),
    }
    own.taking.extend(shared.taking);
    Examined {
        findings,
        taking: own.taking,
        base_url,
    }
}

fn text(examined: &Examined) -> String {
    let mut text = String::new();
    let findings = &examined.findings;
    for finding in findings {
        let _ = writeln!(text, "{}", finding.line());
    }
    let count = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    let counts = [
        ("Failed", count(Verdict::Fail)),
        ("Warnings", count(Verdict::Warn)),
        ("Not tried", count(Verdict::NotTried)),
    ];
    let counts = counts.iter().filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(what, count)| format!("{what}: {count}."))
        .collect();
    let checks = match (counts.is_empty(), count(Verdict::Fail)) {
        (true, _) => "All checks passed.".to_owned(),
        (false, 0) => format!("No check failed. {}", counts.join(" ")),
        (false, _) => counts.join(" "),
    };
    let taking = match examined.taking.as_slice() {
        [] => "No Workspace is known to take Runs from here.".to_owned(),
        taking => format!("These take Runs from here: {}.", taking.join(", ")),
    };
    let _ = writeln!(text, "{checks}\n{taking}");
    text
}

fn document(examined: &Examined) -> String {
    let checks: Vec<_> = examined.findings.iter().map(Finding::json).collect();
    let document = json!({"good": examined.good(), "taking": examined.taking, "checks": checks});
    format!("{document:#}\n")
}
