//! Checks that an operator is active: by its Lease, which a leader renews every few seconds, or, without an election,
//! by its Deployment. A Lease may be left from an election that was turned off since.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};

use super::ask::{CHECK_ACCESS, Refused, bounded};
use crate::contract_tool::statements::{Finding, Statement};

/// Interval of reading the Lease while waiting for its renewal.
const BETWEEN: Duration = Duration::from_millis(500);
/// Time after its duration in which a Lease may still be renewed: a slow API server.
const MARGIN: Duration = Duration::from_secs(5);
/// Longest wait for a Lease, whatever its duration.
const LONGEST: Duration = Duration::from_mins(1);

/// The flag by which an operator takes part in an election, and its variable.
const LEADER_ELECT: &str = "--leader-elect";
const LEADER_ELECT_ENV: &str = "RUN_OPERATOR_LEADER_ELECT";

const AT_WORK: Statement = Statement {
    check: "operator.atWork",
    title: "an operator is active",
};
const LOG: &str = "Check its Pods and their log; docs/alerts.md has more.";

/// Not checked: the API server did not answer.
pub(super) fn not_tried(why: &str) -> Finding {
    AT_WORK.not_tried(why)
}

/// The finding for the operator of this namespace and name. Waits for the renewal of a Lease, for its duration and 5 s,
/// a minute at most: a renewal is detected by its change, so that no clocks are compared.
pub(super) async fn finding(client: &Client, namespace: &str, name: &str) -> Finding {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let place = format!("{namespace}/{name}");
    match bounded(leases.get_opt(name)).await {
        Ok(Some(lease)) => match renewed(&leases, &lease, name, &place).await {
            Renewed::Not(finding) => without_election(client, namespace, name)
                .await
                .unwrap_or(finding),
            Renewed::Found(finding) => finding,
        },
        Ok(None) => deployed(client, namespace, name, true).await,
        Err(Refused {
            code: Some(403), ..
        }) => deployed(client, namespace, name, false).await,
        Err(refused) => AT_WORK.fail(refused.why, CHECK_ACCESS),
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref();
    holder.filter(|holder| !holder.is_empty())
}

/// Result of watching a Lease.
enum Renewed {
    Found(Finding),
    /// It was not renewed; the finding if there is an election.
    Not(Finding),
}

async fn renewed(leases: &Api<Lease>, first: &Lease, name: &str, place: &str) -> Renewed {
    let spec = first.spec.as_ref();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
    let duration = Duration::from_secs(seconds.and_then(|s| s.try_into().ok()).unwrap_or_default());
    let due = duration + MARGIN;
    let wait = due.min(LONGEST);
    let reads = wait.as_millis() / BETWEEN.as_millis();
    let renewed_at = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
    let mut last = first.clone();
    for _ in 0..reads {
        tokio::time::sleep(BETWEEN).await;
        match bounded(leases.get(name)).await {
            Ok(lease) => last = lease,
            Err(refused) => {
                return Renewed::Found(AT_WORK.fail(refused.why, CHECK_ACCESS));
            }
        }
        if let Some(holder) = holder(&last)
            && renewed_at(&last) != renewed_at(first)
        {
            return Renewed::Found(AT_WORK.ok(format!("{holder} renews the Lease {place}.")));
        }
    }
    let waited = wait.as_secs();
    Renewed::Not(match holder(&last) {
        Some(holder) if wait < due => AT_WORK.not_tried(&format!(
            "{holder} holds the Lease {place} for {} s, and it was watched for {waited} s",
            duration.as_secs()
        )),
        Some(holder) => AT_WORK.fail(
            format!("{holder} holds the Lease {place}, and has not renewed it for {waited} s."),
            LOG,
        ),
        None => AT_WORK.fail(format!("The Lease {place} has no holder."), LOG),
    })
}

/// The finding by the Deployment, if there is one that is known to run without an election.
async fn without_election(client: &Client, namespace: &str, name: &str) -> Option<Finding> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let deployment = bounded(deployments.get_opt(name)).await.ok().flatten()?;
    let place = format!("{namespace}/{name}");
    (!elects(&deployment)).then(|| available(&deployment, &place))
}

/// Whether the Pods of a Deployment are configured to elect a leader. True without a Pod specification, since it may
/// be.
fn elects(deployment: &Deployment) -> bool {
    let spec = deployment.spec.as_ref();
    let Some(pod) = spec.and_then(|spec| spec.template.spec.as_ref()) else {
        return true;
    };
    pod.containers.iter().any(|container| {
        let args = container.args.iter().chain(&container.command).flatten();
        let mut env = container.env.iter().flatten();
        args.into_iter().any(|arg| arg == LEADER_ELECT) || env.any(|v| v.name == LEADER_ELECT_ENV)
    })
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
            return AT_WORK.fail(refused.why, CHECK_ACCESS);
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
    available(&deployment, &place)
}

fn available(deployment: &Deployment, place: &str) -> Finding {
    let status = deployment.status.as_ref();
    let available = status.and_then(|status| status.available_replicas);
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
