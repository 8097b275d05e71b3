//! A service: whether it answers `GET /version` with a version that the contract file accepts.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::api::Contract;
use crate::contract_file::{ContractFileError, Source, load, read_up_to};
use crate::decide::workspace::version_verdict;
use crate::service::{AllowList, BaseUrl, BaseUrlError, Client, ClientConfig, ConfigError};

use super::{Check, Finding, Verdict};

/// Bytes of a file of CA certificates; the system's own bundle has about 200 KiB.
const LARGEST_CA: u64 = 4 << 20;
const ACCEPTED: Check = Check::new("service.version", "the service's version is accepted");

/// How a service is tried.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// The contract file; the one that is compiled in, if unset.
    pub contract: Option<PathBuf>,
    /// The CA certificates to trust, PEM, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether plain http to other machines is accepted.
    pub allow_insecure_http: bool,
    /// Whether plain http is HTTP/2.
    pub h2c: bool,
}

/// Reason why a service can't be tried.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The contract file.
    #[error(transparent)]
    File(#[from] ContractFileError),
    /// The URL.
    #[error("failed to use --base-url")]
    BaseUrl(#[from] BaseUrlError),
    /// The file of certificates.
    #[error("failed to read the CA certificates {}", .0.display())]
    Ca(PathBuf, #[source] io::Error),
    /// Its content, or the system's.
    #[error("failed to make a client")]
    Client(#[from] ConfigError),
}

/// The service that is tried, and the contract to compare it with.
pub struct Target {
    /// Its address.
    pub base_url: BaseUrl,
    /// Where the contract is from.
    pub source: Source,
    /// The contract.
    pub contract: Arc<Contract>,
    /// A client of it, without a token.
    pub client: Client,
}

impl Target {
    /// Reads the files and the URL.
    pub fn new(base_url: &str, trial: &Trial) -> Result<Self, TargetError> {
        let source = Source::file_or_builtin(trial.contract.as_deref());
        let contract = Arc::new(load(&source)?);
        let allowed = AllowList::parse([base_url], trial.allow_insecure_http)?;
        let base_url = BaseUrl::parse(base_url, &allowed)?;
        let read = |path: &PathBuf| {
            read_up_to(path, LARGEST_CA).map_err(|error| TargetError::Ca(path.clone(), error))
        };
        let client = Client::new(ClientConfig {
            base_url: base_url.clone(),
            ca_pem: trial.ca_file.as_ref().map(read).transpose()?,
            h2c: trial.h2c,
            contract: Arc::clone(&contract),
            user_agent: concat!("run-operator/", env!("CARGO_PKG_VERSION")).to_owned(),
            observer: Arc::new(()),
        })?;
        Ok(Self {
            base_url,
            source,
            contract,
            client,
        })
    }

    /// Asks for the version, as the operator does.
    pub async fn accepted(&self) -> Finding {
        let todo = "Check the base URL and the network: `kubectl runop contract check` says more.";
        match self.client.version().await {
            Ok(answer) => match version_verdict(answer.version.as_deref(), &self.contract) {
                Ok(why) => ACCEPTED.ok(why.message),
                Err(why) => ACCEPTED.finding(Verdict::Fail, why.message, None),
            },
            Err(failure) => ACCEPTED.fail(format!("{}.", failure.message), todo),
        }
    }
}
