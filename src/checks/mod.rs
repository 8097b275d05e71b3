//! What `helm test` and the tool on the desk ask of a cluster, of an operator and of a service. Each answer is a finding:
//! what was seen, and what to do. Only reads.

mod cluster;
mod finding;
mod operator;
mod service;
mod workspaces;

use std::time::Duration;

use kube::Api;
use kube::api::ListParams;
use kube::core::Status;
use serde::de::DeserializeOwned;

use crate::util::error_chain;

pub use cluster::api_server;
pub use finding::{Check, Finding, NO_ANSWER, Verdict, is_good, report};
pub use operator::{Deployed, at_work};
pub use service::{Target, TargetError, Trial};
pub use workspaces::{Workspaces, workspaces};

/// Longest wait for one answer of the API server's: a person waits for the command.
const LONGEST_CALL: Duration = Duration::from_secs(30);
/// Objects asked for at a time.
const PAGE: u32 = 500;

/// Why the API server gave no answer that is of use, in kubectl's words.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It refused.
    #[error("Error from server ({}): {}", .0.reason, .0.message)]
    Status(Box<Status>),
    /// It was not reached, or its answer can't be read.
    #[error("error: the API server gave no answer: {}", error_chain(.0))]
    Failed(#[source] kube::Error),
    /// It took too long.
    #[error("error: the API server gave no answer within {} s", LONGEST_CALL.as_secs())]
    Slow,
}

impl From<kube::Error> for Refused {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Status(status),
            error => Self::Failed(error),
        }
    }
}

impl Refused {
    /// The API server's status code, if it answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status.code),
            _ => None,
        }
    }

    /// A sentence without its period.
    pub fn why(&self) -> String {
        let text = match self {
            Self::Status(status) => status.message.clone(),
            Self::Failed(error) => error_chain(error),
            Self::Slow => format!("no answer within {} s", LONGEST_CALL.as_secs()),
        };
        text.trim().trim_end_matches('.').to_owned()
    }
}

/// Waits for one answer, for 30 s at most.
pub async fn bounded<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, Refused> {
    match tokio::time::timeout(LONGEST_CALL, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Refused::Slow),
    }
}

/// All objects of a kind, page by page.
pub async fn pages<K>(api: &Api<K>, params: ListParams) -> Result<Vec<K>, Refused>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let mut params = params.limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let page = bounded(api.list(&params)).await?;
        objects.extend(page.items);
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(objects);
        }
    }
}
