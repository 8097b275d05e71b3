//! The check of the API server's version at the start.

use std::time::Duration;

use kube::Client;
use run_operator::api::kubernetes::{KubernetesVersion, MINIMUM};
use run_operator::util::error_chain;

use super::error::StartError;

/// Time for the API server's answer. An API server that is away delays the start by no more.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the API server's version, once. Fails if it is below the minimum. A version that can't be read is only logged:
/// an outage of the API server must not end the operator.
pub(super) async fn check(client: &Client) -> Result<(), StartError> {
    let answer = tokio::time::timeout(TIMEOUT, client.apiserver_version()).await;
    let info = match answer {
        Ok(Ok(info)) => info,
        Ok(Err(error)) => {
            unchecked(&error_chain(&error));
            return Ok(());
        }
        Err(_) => {
            unchecked("no answer in time");
            return Ok(());
        }
    };
    match KubernetesVersion::served(&info) {
        Some(found) if found < MINIMUM => Err(StartError::OldKubernetes {
            found,
            server: info.git_version,
        }),
        Some(_) => Ok(()),
        None => {
            unchecked("it has no number");
            Ok(())
        }
    }
}

fn unchecked(error: &str) {
    tracing::warn!(error, minimum = %MINIMUM, "the API server's version could not be checked");
}
