//! The cluster, the user and the namespace that the flags name, as for kubectl.

use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::cli::runs::ClusterArgs;
use crate::start;

use super::exit::RunsError;
use super::object::Seen;

/// Longest wait for one answer: a person waits for it.
const LONGEST_CALL: Duration = Duration::from_secs(30);

/// A client, and the namespace in force.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) client: Client,
    pub(super) namespace: String,
    /// Whether a flag named the namespace.
    pub(super) is_namespace_given: bool,
    /// The flags that name the cluster, to be repeated in a command for the user.
    flags: String,
}

impl Cluster {
    pub(super) async fn connect(args: &ClusterArgs) -> Result<Self, RunsError> {
        let mut config = config(args).await?;
        if args.impersonate.is_some() {
            config.auth_info.impersonate.clone_from(&args.impersonate);
        }
        if !args.impersonate_groups.is_empty() {
            config.auth_info.impersonate_groups = Some(args.impersonate_groups.clone());
        }
        // A create that is sent twice is this program's to sort out, and a watch has its own pace.
        config.default_retry = false;
        let namespace = args.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        Ok(Self {
            client: start::command_client(config)?,
            namespace,
            is_namespace_given: args.namespace.is_some(),
            flags: flags(args),
        })
    }

    /// The same cluster, with another namespace in force.
    pub(super) fn within(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            is_namespace_given: true,
            ..self.clone()
        }
    }

    /// The Runs of the namespace in force.
    pub(super) fn runs(&self) -> Api<Seen> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// One Run.
    pub(super) async fn run(&self, name: &str) -> Result<Seen, RunsError> {
        bounded(self.runs().get(name)).await
    }

    /// A command for the user to type, with the flags that name this cluster.
    pub(super) fn command(&self, what: &str) -> String {
        let namespace = if self.is_namespace_given {
            format!(" --namespace {}", quoted(&self.namespace))
        } else {
            String::new()
        };
        format!("kubectl runs {what}{namespace}{}", self.flags)
    }
}

async fn config(args: &ClusterArgs) -> Result<Config, RunsError> {
    let options = KubeConfigOptions {
        context: args.context.clone(),
        cluster: args.cluster.clone(),
        user: args.user.clone(),
    };
    let named = args.context.is_some() || args.cluster.is_some() || args.user.is_some();
    let read = match &args.kubeconfig {
        Some(file) => match Kubeconfig::read_from(file) {
            Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
            Err(error) => Err(error),
        },
        None if named => Config::from_kubeconfig(&options).await,
        None => return Ok(start::inferred_config().await?),
    };
    read.map_err(|error| RunsError::Usage(run_operator::util::error_chain(&error)))
}

/// The flags as they were given; their values may need quotes in a shell.
fn flags(args: &ClusterArgs) -> String {
    let file = args.kubeconfig.as_ref().map(|f| f.display().to_string());
    let given = [
        ("--context", args.context.clone()),
        ("--cluster", args.cluster.clone()),
        ("--user", args.user.clone()),
        ("--kubeconfig", file),
        ("--as", args.impersonate.clone()),
    ];
    let given = given
        .into_iter()
        .filter_map(|(flag, value)| Some((flag, value?)));
    let given = given.map(|(flag, value)| format!(" {flag} {}", quoted(&value)));
    given.collect()
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Waits for one answer, for 30 s at most.
pub(super) async fn bounded<T>(
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, RunsError> {
    match tokio::time::timeout(LONGEST_CALL, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(RunsError::Slow {
            seconds: LONGEST_CALL.as_secs(),
        }),
    }
}
