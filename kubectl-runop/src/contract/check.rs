//! `run-operator contract check`: two requests without a token, and the findings from their answers.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use run_operator::api::Contract;
use run_operator::decide::response::answer::Failure;
use run_operator::service::{
    AllowList, BaseUrl, BaseUrlError, CallError, Client, ClientConfig, ConfigError, RawAnswer,
};

use crate::cli::{CheckArgs, OutputFormat, TrialArgs};
use crate::contract_file::{ContractFileError, Source, load, read_up_to};

use super::findings;
use super::report::{Report, block_on};
use super::statements::{Finding, Verdict};

/// Time limit of a call, even if the contract file allows more: a person waits for the command.
const LONGEST_CALL: Duration = Duration::from_mins(1);
/// Bytes of a file of CA certificates; the system's own bundle has about 200 KiB.
const LARGEST_CA: u64 = 4 << 20;

/// Reason why a service can't be tried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error(transparent)]
    File(#[from] ContractFileError),
    #[error("failed to use --base-url")]
    BaseUrl(#[source] BaseUrlError),
    #[error("failed to read the CA certificates {}", path.display())]
    ReadCa { path: PathBuf, source: io::Error },
    #[error("failed to use the CA certificates {}: the file is larger than {LARGEST_CA} bytes", path.display())]
    LargeCa { path: PathBuf },
    #[error("failed to make a client")]
    Client(#[source] ConfigError),
    #[error("failed to start the runtime")]
    Runtime(#[source] io::Error),
}

/// The service that is tried, and the contract to compare it with.
pub(crate) struct Target {
    base_url: BaseUrl,
    source: Source,
    contract: Arc<Contract>,
    client: Client,
}

/// Reads the files and the URL that the flags name.
pub(crate) fn target(base_url: &str, args: &TrialArgs) -> Result<Target, CheckError> {
    let source = Source::file_or_builtin(args.contract.as_deref());
    let contract = Arc::new(load(&source)?);
    let allowed = AllowList::parse([base_url], args.plain_http.allow_insecure_http);
    let allowed = allowed.map_err(CheckError::BaseUrl)?;
    let base_url = BaseUrl::parse(base_url, &allowed).map_err(CheckError::BaseUrl)?;
    let ca_pem = args.ca_file.as_deref().map(read_ca).transpose()?;
    let client = Client::new(ClientConfig {
        base_url: base_url.clone(),
        ca_pem,
        h2c: args.plain_http.h2c,
        contract: Arc::clone(&contract),
        user_agent: concat!("run-operator/", env!("CARGO_PKG_VERSION")).to_owned(),
        observer: Arc::new(()),
    })
    .map_err(CheckError::Client)?;
    Ok(Target {
        base_url,
        source,
        contract,
        client,
    })
}

pub(super) fn run(args: &CheckArgs) -> Result<Report, CheckError> {
    let target = target(&args.base_url, &args.trial)?;
    let findings = block_on(ask(&target)).map_err(CheckError::Runtime)?;
    let good = findings.iter().all(|f| f.verdict != Verdict::Fail);
    let (base_url, source) = (&target.base_url, &target.source);
    let text = match args.output {
        OutputFormat::Text => for_people(base_url, source, &findings),
        OutputFormat::Json => for_pipelines(base_url, source, &findings, good),
    };
    Ok(Report { text, good })
}

fn read_ca(path: &Path) -> Result<Vec<u8>, CheckError> {
    let file = std::fs::File::open(path);
    let pem = file.and_then(|file| read_up_to(file, LARGEST_CA));
    let pem = pem.map_err(|source| CheckError::ReadCa {
        path: path.to_owned(),
        source,
    })?;
    pem.ok_or_else(|| CheckError::LargeCa {
        path: path.to_owned(),
    })
}

/// Findings from the answer to `GET /version`.
pub(crate) async fn version(target: &Target) -> Vec<Finding> {
    let version = bounded(target.client.raw_version()).await;
    findings::of_version(&version, &target.contract)
}

async fn ask(target: &Target) -> Vec<Finding> {
    let client = &target.client;
    let version = bounded(client.raw_version()).await;
    // The second request is made only if the first one was answered.
    let workspace = match &version {
        Err(_) => None,
        Ok(_) => Some(bounded(client.current_workspace_without_token()).await),
    };
    let mut findings = findings::of_version(&version, &target.contract);
    findings.extend(findings::of_workspace(workspace.as_ref()));
    findings
}

/// The answer, or the reason why there is none.
async fn bounded(
    call: impl Future<Output = Result<RawAnswer, CallError>>,
) -> Result<RawAnswer, String> {
    match tokio::time::timeout(LONGEST_CALL, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Failure::from(&error).message),
        Err(_) => Err(format!(
            "failed to get an answer from the service within {} s",
            LONGEST_CALL.as_secs()
        )),
    }
}

fn for_people(base_url: &BaseUrl, source: &Source, findings: &[Finding]) -> String {
    let mut text = format!("{base_url} against the contract file {source}\n");
    for finding in findings {
        let _ = writeln!(text, "{}", finding.line());
    }
    let count = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    let (failed, untried) = (count(Verdict::Fail), count(Verdict::NotTried));
    let _ = match (failed, untried) {
        (0, _) => writeln!(text, "The public part matches the contract."),
        (failed, 0) => writeln!(text, "Against the contract: {failed}."),
        (failed, untried) => writeln!(
            text,
            "Against the contract: {failed}. Not tried: {untried}."
        ),
    };
    text
}

fn for_pipelines(base_url: &BaseUrl, source: &Source, findings: &[Finding], good: bool) -> String {
    let checks: Vec<_> = findings.iter().map(Finding::json).collect();
    let document = json!({
        "baseUrl": base_url.as_str(),
        "contract": source.to_string(),
        "good": good,
        "checks": checks,
    });
    format!("{document:#}\n")
}
