//! The cluster, the user and the namespace that the flags name, as for kubectl.

use std::fmt::Debug;

use kube::config::KubeConfigOptions;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use run_operator::api::RunTemplate;
use run_operator::api_access::Access;
use run_operator::checks::bounded;

use crate::args::ClusterArgs;
use crate::error::ToolError;
use crate::run::Run;
use crate::schedule::Schedule;

const AGENT: &str = concat!("kubectl-runop/", env!("CARGO_PKG_VERSION"));

/// One object of a kind of ours.
pub(crate) async fn read<K>(api: &Api<K>, name: &str) -> Result<K, ToolError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let read = bounded(api.get(name)).await;
    read.map_err(|refused| ToolError::of_kind(refused, &K::plural(&())))
}

/// A client, and the namespace in force.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// Whether a flag named the namespace.
    pub(crate) is_namespace_given: bool,
}

impl Cluster {
    pub(crate) async fn connect(args: &ClusterArgs) -> Result<Self, ToolError> {
        let options = KubeConfigOptions {
            context: args.context.clone(),
            cluster: args.cluster.clone(),
            user: args.user.clone(),
        };
        let mut access = Access::find(args.kubeconfig.as_deref(), &options, AGENT).await?;
        let config = &mut access.config;
        if args.impersonate.is_some() {
            config.auth_info.impersonate.clone_from(&args.impersonate);
        }
        if !args.impersonate_groups.is_empty() {
            config.auth_info.impersonate_groups = Some(args.impersonate_groups.clone());
        }
        // A watch has its own pace and may be silent.
        config.read_timeout = None;
        let namespace = args.namespace.as_ref().unwrap_or(&config.default_namespace);
        Ok(Self {
            namespace: namespace.clone(),
            is_namespace_given: args.namespace.is_some(),
            client: access.client().map_err(ToolError::Client)?,
        })
    }

    /// The Runs of the namespace in force.
    pub(crate) fn runs(&self) -> Api<Run> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// One Run.
    pub(crate) async fn run(&self, name: &str) -> Result<Run, ToolError> {
        read(&self.runs(), name).await
    }

    /// The RunSchedules of the namespace in force.
    pub(crate) fn schedules(&self) -> Api<Schedule> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// One RunSchedule.
    pub(crate) async fn schedule(&self, name: &str) -> Result<Schedule, ToolError> {
        read(&self.schedules(), name).await
    }

    /// The RunTemplates of the namespace in force.
    pub(crate) fn templates(&self) -> Api<RunTemplate> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A command for the user to type, for the same namespace.
    pub(crate) fn command(&self, what: &str) -> String {
        let namespace = if self.is_namespace_given {
            format!(" --namespace {}", self.namespace)
        } else {
            String::new()
        };
        format!("kubectl runop {what}{namespace}")
    }
}
