//! What the operator's Deployment says of the operator: its service account and its flags.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use kube::{Api, Client};

use super::ask::{Refused, bounded};

/// The operator as its Deployment configures it.
pub(super) struct Configured {
    /// The service account of its Pods.
    pub(super) account: String,
    container: Container,
}

/// Reads it, or says why it is not known.
pub(super) async fn read(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Configured, String> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let deployment = match bounded(api.get_opt(name)).await {
        Ok(Some(deployment)) => deployment,
        Ok(None) => return Err(format!("there is no Deployment {namespace}/{name}")),
        Err(Refused {
            code: Some(403), ..
        }) => {
            return Err(format!(
                "these credentials may not read the Deployment {namespace}/{name}"
            ));
        }
        Err(refused) => return Err(refused.why.trim_end_matches('.').to_owned()),
    };
    let pod = deployment.spec.and_then(|spec| spec.template.spec);
    pod.and_then(configured)
        .ok_or_else(|| format!("the Deployment {namespace}/{name} has no container"))
}

fn configured(pod: PodSpec) -> Option<Configured> {
    let account = pod
        .service_account_name
        .unwrap_or_else(|| "default".to_owned());
    let container = pod.containers.into_iter().next()?;
    Some(Configured { account, container })
}

impl Configured {
    /// The values of a flag, from its arguments or else from its variable; a variable that another object has the
    /// value of is not known.
    pub(super) fn values(&self, flag: &str) -> Vec<String> {
        let args = self.container.args.iter().chain(&self.container.command);
        let mut args = args.flatten();
        let mut given = Vec::new();
        while let Some(arg) = args.next() {
            let rest = arg.strip_prefix(flag);
            match rest.map(|rest| rest.strip_prefix('=')) {
                Some(Some(value)) => given.push(value.to_owned()),
                Some(None) if arg == flag => given.extend(args.next().cloned()),
                _ => {}
            }
        }
        if given.is_empty() {
            let variable = variable(flag);
            let env = self.container.env.iter().flatten();
            let mut env = env.filter(|env| env.name == variable);
            given.extend(env.next().and_then(|env| env.value.clone()));
        }
        let values = given.iter().flat_map(|value| value.split(','));
        values.map(str::to_owned).collect()
    }

    /// Whether a switch is on.
    pub(super) fn has(&self, flag: &str) -> bool {
        let mut args = self.container.args.iter().flatten();
        let variable = variable(flag);
        let mut env = self.container.env.iter().flatten();
        args.any(|arg| arg == flag)
            || env.any(|env| env.name == variable && env.value.as_deref() == Some("true"))
    }
}

/// The variable of a flag.
fn variable(flag: &str) -> String {
    let name = flag.trim_start_matches('-').to_uppercase();
    format!("RUN_OPERATOR_{}", name.replace('-', "_"))
}
