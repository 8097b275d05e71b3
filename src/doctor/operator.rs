//! Whether an operator is at work: by its Lease, which a leader renews every few seconds, or, without an election,
//! by its Deployment.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};

use super::ask::{Refused, bounded};
use crate::contract_tool::statements::{Finding, Statement};

/// How often the Lease is looked at while it is waited for.
const BETWEEN: Duration = Duration::from_millis(500);
/// How long after its duration a Lease may be renewed: a slow API server.
const MARGIN: Duration = Duration::from_secs(5);
/// How long a Lease is waited for, whatever its duration.
const LONGEST: Duration = Duration::from_mins(1);

const AT_WORK: Statement = Statement {
    check: "operator.atWork",
    title: "an operator is at work",
};
const LOG: &str = "Look at its Pods and their log; docs/alerts.md says more.";

/// Not asked: nothing was heard from the API server.
pub(super) fn not_tried(why: &str) -> Finding {
    AT_WORK.not_tried(why)
}

/// The finding for the operator of this namespace and name. A Lease is waited for, for its duration and 5 s at most:
/// whether it is renewed is seen by its change, so that no clock is compared.
pub(super) async fn finding(client: &Client, namespace: &str, name: &str) -> Finding {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let place = format!("{namespace}/{name}");
    match bounded(leases.get_opt(name)).await {
        Ok(Some(lease)) => renewed(&leases, &lease, name, &place).await,
        Ok(None) => deployed(client, namespace, name, true).await,
        Err(Refused {
            code: Some(403), ..
        }) => deployed(client, namespace, name, false).await,
        Err(refused) => AT_WORK.fail(refused.why, "Check the kubeconfig, or the Pod's network."),
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref();
    holder.filter(|holder| !holder.is_empty())
}

async fn renewed(leases: &Api<Lease>, first: &Lease, name: &str, place: &str) -> Finding {
    let spec = first.spec.as_ref();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
    let duration = Duration::from_secs(seconds.and_then(|s| s.try_into().ok()).unwrap_or_default());
    let wait = (duration + MARGIN).min(LONGEST);
    let looks = wait.as_millis() / BETWEEN.as_millis();
    let renewed_at = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
    let mut last = first.clone();
    for _ in 0..looks {
        tokio::time::sleep(BETWEEN).await;
        match bounded(leases.get(name)).await {
            Ok(lease) => last = lease,
            Err(refused) => {
                return AT_WORK.fail(refused.why, "Check the kubeconfig, or the Pod's network.");
            }
        }
        if let Some(holder) = holder(&last)
            && renewed_at(&last) != renewed_at(first)
        {
            return AT_WORK.ok(format!("{holder} renews the Lease {place}."));
        }
    }
    let nobody = match holder(&last) {
        Some(holder) => format!(
            "{holder} holds the Lease {place}, and has not renewed it for {} s.",
            wait.as_secs()
        ),
        None => format!("Nobody holds the Lease {place}."),
    };
    AT_WORK.fail(nobody, LOG)
}

async fn deployed(client: &Client, namespace: &str, name: &str, lease_read: bool) -> Finding {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let place = format!("{namespace}/{name}");
    let found = match bounded(deployments.get_opt(name)).await {
        Ok(found) => found,
        Err(Refused {
            code: Some(403), ..
        }) => {
            let unread = if lease_read {
                "the Deployment"
            } else {
                "the Lease and the Deployment"
            };
            return AT_WORK.not_tried(&format!("these credentials may not read {unread} {place}"));
        }
        Err(refused) => {
            return AT_WORK.fail(refused.why, "Check the kubeconfig, or the Pod's network.");
        }
    };
    let Some(deployment) = found else {
        return AT_WORK.fail(
            format!(
                "There is no Deployment {place}{}.",
                if lease_read { ", and no Lease" } else { "" }
            ),
            "Install the operator, or name it with --operator-namespace and --operator-name.",
        );
    };
    let available = deployment
        .status
        .and_then(|status| status.available_replicas);
    match available.unwrap_or_default() {
        0 => AT_WORK.fail(
            format!("The Deployment {place} has no Pod that is Ready."),
            LOG,
        ),
        pods => AT_WORK.ok(format!(
            "The Deployment {place} has {pods} Pods that are Ready."
        )),
    }
}
