//! The operator: what its Deployment says of it, and whether it is at work.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Container;
use kube::{Api, Client};

use super::{AT_WORK, CHECK_ACCESS, Finding, Refused, bounded};

const BETWEEN: Duration = Duration::from_millis(500);
/// Time after its duration in which a Lease may still be renewed: a slow API server.
const MARGIN: Duration = Duration::from_secs(5);
/// Longest wait for a renewal, whatever the Lease's duration.
const LONGEST: Duration = Duration::from_mins(1);

const LOG: &str = "Check its Pods and their log; docs/alerts.md has more.";

pub struct Deployed {
    pub account: String,
    container: Container,
    ready: i32,
}

impl Deployed {
    pub async fn read(
        client: &Client,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Self>, Refused> {
        let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
        Ok(bounded(api.get_opt(name)).await?.and_then(Self::of))
    }

    fn of(deployment: Deployment) -> Option<Self> {
        let pod = deployment.spec.template.spec?;
        let account = pod.service_account_name;
        let ready = deployment.status.and_then(|s| s.available_replicas);
        Some(Self {
            account: account.unwrap_or_else(|| "default".to_owned()),
            container: pod.containers.into_iter().next()?,
            ready: ready.unwrap_or_default(),
        })
    }

    fn args(&self) -> impl Iterator<Item = &String> {
        let args = self.container.args.iter().chain(&self.container.command);
        args.flatten()
    }

    /// The value of a flag's variable; one that another object has the value of is not known.
    fn variable(&self, flag: &str) -> Option<&String> {
        let name = flag.trim_start_matches('-').to_uppercase();
        let name = format!("RUN_OPERATOR_{}", name.replace('-', "_"));
        let mut env = self.container.env.iter().flatten();
        env.find(|env| env.name == name)?.value.as_ref()
    }

    pub fn values(&self, flag: &str) -> Vec<String> {
        let next = self.args().skip(1).map(Some).chain([None]);
        let given =
            self.args()
                .zip(next)
                .filter_map(|(arg, next)| match arg.strip_prefix(flag)? {
                    "" => next.map(String::as_str),
                    value => value.strip_prefix('='),
                });
        let mut given: Vec<&str> = given.collect();
        if given.is_empty() {
            given.extend(self.variable(flag).map(String::as_str));
        }
        let values = given.iter().flat_map(|value| value.split(','));
        values.map(str::to_owned).collect()
    }

    pub fn has(&self, flag: &str) -> bool {
        self.args().any(|arg| arg == flag) || self.variable(flag).is_some_and(|v| v == "true")
    }

    pub fn serves_cluster_workspaces(&self) -> bool {
        self.values("--cluster-workspaces") != ["false"]
    }

    fn available(&self, place: &str) -> Finding {
        match self.ready {
            0 => AT_WORK.fail(
                format!("The Deployment {place} has no Pod that is Ready."),
                LOG,
            ),
            pods => AT_WORK.ok(format!(
                "The Deployment {place} has {pods} Pods that are Ready."
            )),
        }
    }
}

/// A leader renews its Lease. Where the Deployment elects none, only that counts: a Lease may be left from before.
pub async fn at_work(client: &Client, namespace: &str, name: &str) -> Finding {
    let place = format!("{namespace}/{name}");
    let deployed = Deployed::read(client, namespace, name).await;
    if let Ok(Some(deployed)) = &deployed
        && !deployed.has("--leader-elect")
    {
        return deployed.available(&place);
    }
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = bounded(leases.get_opt(name)).await;
    match (lease, deployed) {
        (Ok(Some(lease)), _) => renewed(&leases, &lease, name, &place).await,
        (_, Ok(Some(deployed))) => deployed.available(&place),
        (lease, Ok(None)) => AT_WORK.fail(
            format!(
                "There is no Deployment {place}{}.",
                if lease.is_ok() { ", and no Lease" } else { "" }
            ),
            "Install the operator, or name it with --operator-namespace and --operator-name.",
        ),
        (lease, Err(refused)) => {
            let lease = if lease.is_ok() { "" } else { "the Lease and " };
            let may_not = format!("read {lease}the Deployment {place}");
            AT_WORK.unread(&refused, &may_not)
        }
    }
}

/// Watches a Lease for its duration and 5 s. A renewal is detected by its change, so that no clocks are compared.
async fn renewed(leases: &Api<Lease>, first: &Lease, name: &str, place: &str) -> Finding {
    let spec = |lease: &Lease| lease.spec.clone().unwrap_or_default();
    let first = spec(first);
    let seconds = first.lease_duration_seconds.and_then(|s| s.try_into().ok());
    let wait = (Duration::from_secs(seconds.unwrap_or_default()) + MARGIN).min(LONGEST);
    let mut last = first.clone();
    for _ in 0..wait.as_millis() / BETWEEN.as_millis() {
        tokio::time::sleep(BETWEEN).await;
        last = match bounded(leases.get(name)).await {
            Ok(lease) => spec(&lease),
            Err(refused) => return AT_WORK.fail(format!("{}.", refused.why()), CHECK_ACCESS),
        };
        if last.renew_time != first.renew_time {
            break;
        }
    }
    let holder = last.holder_identity.filter(|holder| !holder.is_empty());
    match holder {
        None => AT_WORK.fail(format!("The Lease {place} has no holder."), LOG),
        Some(holder) if last.renew_time != first.renew_time => {
            AT_WORK.ok(format!("{holder} renews the Lease {place}."))
        }
        Some(holder) => {
            let waited = wait.as_secs();
            let why =
                format!("{holder} holds the Lease {place}, and has not renewed it for {waited} s.");
            AT_WORK.fail(why, LOG)
        }
    }
}
