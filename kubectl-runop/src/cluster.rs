//! The cluster, the user and the namespace that the flags name, as for kubectl.

use std::time::Duration;

use http::Uri;
use http::header::{HeaderValue, USER_AGENT};
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use run_operator::checks::bounded;

use crate::args::ClusterArgs;
use crate::error::ToolError;
use crate::run::Run;

/// Timeout for connecting to the API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

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
        let mut config = config(args).await?;
        if args.impersonate.is_some() {
            config.auth_info.impersonate.clone_from(&args.impersonate);
        }
        if !args.impersonate_groups.is_empty() {
            config.auth_info.impersonate_groups = Some(args.impersonate_groups.clone());
        }
        // A create that is sent twice is this program's to sort out, and a watch has its own pace and may be silent.
        config.default_retry = false;
        config.read_timeout = None;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        let agent = concat!("kubectl-runop/", env!("CARGO_PKG_VERSION"));
        let agent = HeaderValue::from_static(agent);
        config.headers.push((USER_AGENT, agent));
        let namespace = args.namespace.as_ref().unwrap_or(&config.default_namespace);
        Ok(Self {
            namespace: namespace.clone(),
            is_namespace_given: args.namespace.is_some(),
            client: Client::try_from(config).map_err(ToolError::Client)?,
        })
    }

    /// The Runs of the namespace in force.
    pub(crate) fn runs(&self) -> Api<Run> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// One Run.
    pub(crate) async fn run(&self, name: &str) -> Result<Run, ToolError> {
        Ok(bounded(self.runs().get(name)).await?)
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

async fn config(args: &ClusterArgs) -> Result<Config, ToolError> {
    let options = KubeConfigOptions {
        context: args.context.clone(),
        cluster: args.cluster.clone(),
        user: args.user.clone(),
    };
    let kubeconfig = match &args.kubeconfig {
        Some(file) => Kubeconfig::read_from(file)?,
        None => match Kubeconfig::read() {
            Ok(kubeconfig) => kubeconfig,
            // In a Pod there is none.
            Err(_) => return Ok(Config::infer().await?),
        },
    };
    let own = own_proxy(&kubeconfig, &options).map(str::to_owned);
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    // kube compares NO_PROXY with the proxy's own address, and lets it overrule `proxy-url`: decided here, as in kubectl.
    config.proxy_url = match own {
        Some(own) => own.parse().ok(),
        None => environment(&config.cluster_url, |name| std::env::var(name).ok()),
    };
    Ok(config)
}

/// The `proxy-url` of the cluster that is used.
fn own_proxy<'a>(kubeconfig: &'a Kubeconfig, options: &'a KubeConfigOptions) -> Option<&'a str> {
    let context = options.context.as_ref();
    let context = context.or(kubeconfig.current_context.as_ref());
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|named| Some(&named.name) == context);
    let context = context.and_then(|named| named.context.as_ref());
    let cluster = options.cluster.as_ref().or(context.map(|c| &c.cluster))?;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|named| named.name == *cluster)?;
    let proxy = cluster.cluster.as_ref()?.proxy_url.as_deref();
    proxy.filter(|url| !url.is_empty())
}

/// The proxy that the environment names for this address, unless `NO_PROXY` covers it.
fn environment(address: &Uri, variable: impl Fn(&str) -> Option<String>) -> Option<Uri> {
    let given = |names: [&str; 2]| {
        let mut values = names.iter().filter_map(|name| variable(name));
        values.find(|value| !value.is_empty())
    };
    let proxy = given(["HTTPS_PROXY", "https_proxy"])?;
    let exempt = given(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    let matcher = Matcher::builder().all(proxy.clone()).no(exempt).build();
    let found = matcher.intercept(address)?;
    // As it was given it has its user and password, but perhaps no scheme.
    let own: Option<Uri> = proxy.parse().ok();
    own.filter(|uri| uri.scheme().is_some())
        .or_else(|| Some(found.uri().clone()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Proves: K-plugin
    #[rstest]
    #[case::of_another("other.example", Some("http://me:secret@proxy.example:3128/"))]
    #[case::of_the_proxy("proxy.example", Some("http://me:secret@proxy.example:3128/"))]
    #[case::of_the_api_server("api.example", None)]
    #[case::of_its_domain(".example", None)]
    #[case::of_every_address("*", None)]
    fn no_proxy_is_about_the_api_server(#[case] exempt: &str, #[case] expected: Option<&str>) {
        let variables = |name: &str| match name {
            "https_proxy" => Some("http://me:secret@proxy.example:3128".to_owned()),
            "NO_PROXY" => Some(exempt.to_owned()),
            _ => None,
        };
        let address = Uri::from_static("https://api.example:6443");
        let proxy = environment(&address, variables);
        assert_eq!(proxy.map(|uri| uri.to_string()).as_deref(), expected);
    }

    /// Proves: K-plugin
    #[test]
    fn the_clusters_own_proxy_is_that_of_the_context() {
        let kubeconfig = r"
            current-context: two
            clusters:
              - {name: a, cluster: {server: 'https://a', proxy-url: 'http://pa'}}
              - {name: b, cluster: {server: 'https://b', proxy-url: 'socks5://pb'}}
            contexts:
              - {name: one, context: {cluster: a}}
              - {name: two, context: {cluster: b}}";
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
        let mut options = KubeConfigOptions::default();
        assert_eq!(own_proxy(&kubeconfig, &options), Some("socks5://pb"));
        options.context = Some("one".to_owned());
        assert_eq!(own_proxy(&kubeconfig, &options), Some("http://pa"));
        options.cluster = Some("b".to_owned());
        assert_eq!(own_proxy(&kubeconfig, &options), Some("socks5://pb"));
    }
}
