//! A service: whether it answers `GET /version` with a version that the contract file accepts.

use std::path::PathBuf;
use std::sync::Arc;

use crate::api::Contract;
use crate::contract_file::{self, read_up_to};
use crate::service::{AllowList, BaseUrl, Client, ClientConfig, ServiceProxy};
use crate::util::{Failed, failed};

use super::{Check, Finding};

/// Bytes of a file of CA certificates; the system's own bundle has about 200 KiB.
const LARGEST_CA: u64 = 4 << 20;
const ACCEPTED: Check = Check::new("service.version", "the service's version is accepted");

#[derive(Clone, Debug, Default)]
pub struct Trial {
    pub contract: Option<PathBuf>,
    /// The CA certificates to trust, PEM, instead of the system's.
    pub ca_file: Option<PathBuf>,
    pub allow_insecure_http: bool,
    pub h2c: bool,
    /// The proxy to a service by https.
    pub service_proxy: Option<String>,
}

pub struct Target {
    pub base_url: BaseUrl,
    pub contract_file: String,
    pub contract: Arc<Contract>,
    /// A client of it, without a token.
    pub client: Client,
}

impl Target {
    /// `flag` is the one that names the URL.
    pub fn new(flag: &str, base_url: &str, trial: &Trial) -> Result<Self, Failed> {
        let file = trial.contract.as_deref();
        let contract = Arc::new(contract_file::load(file)?);
        let allowed = AllowList::parse([base_url], trial.allow_insecure_http);
        let base_url = allowed.and_then(|allowed| BaseUrl::parse(base_url, &allowed));
        let base_url = base_url.map_err(failed(format!("use {flag}")))?;
        let read = |path: &PathBuf| {
            let what = format!("read the CA certificates {}", path.display());
            read_up_to(path, LARGEST_CA).map_err(failed(what))
        };
        let client = Client::new(ClientConfig {
            base_url: base_url.clone(),
            ca_pem: trial.ca_file.as_ref().map(read).transpose()?,
            h2c: trial.h2c,
            proxy: ServiceProxy::from_flag(trial.service_proxy.as_deref())?,
            contract: Arc::clone(&contract),
            user_agent: concat!("run-operator/", env!("CARGO_PKG_VERSION")).to_owned(),
            observer: Arc::new(()),
        });
        Ok(Self {
            base_url,
            contract_file: contract_file::name(file),
            contract,
            client: client.map_err(failed("make a client"))?,
        })
    }

    pub async fn accepted(&self) -> Finding {
        let todo = "Check the base URL and the network: `kubectl runop contract check` says more.";
        match self.client.version().await {
            Ok(answer) => ACCEPTED.version(answer.version.as_deref(), &self.contract),
            Err(failure) => ACCEPTED.fail(format!("{}.", failure.message), todo),
        }
    }
}
