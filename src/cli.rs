//! The command line. Every flag of `controller` is an environment variable too.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use run_operator::checks::Trial;

/// Turns Run objects into runs at the Run Orchestration Service: at most one for each object, and none
/// left behind.
#[derive(Debug, Parser)]
#[command(name = "run-operator", version, max_term_width = 100)]
// Without a command: one line and exit code 2, as for every other mistake.
#[command(arg_required_else_help = false)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs the controller until SIGTERM.
    Controller(Box<ControllerArgs>),
    /// Prints the custom resource definitions and the admission policy, for `kubectl apply -f -`.
    Crds,
    /// Checks whether Runs of a namespace have what they need, as `helm test` does. Changes nothing.
    ///
    /// Asks the API server for its version and for the CRDs' fields; reads the namespace's Workspaces, the operator's
    /// Deployment and Lease; and sends GET /version to the service, without a token. What the credentials may not read is
    /// reported as not tried. The last line names the Workspaces that take Runs. `kubectl runop doctor` checks more.
    /// Exit code: 0 no check failed, 1 a check failed, 2 the checks can't be made.
    Check(CheckArgs),
}

/// What to check. The environment is the controller's, so that in its container the command tries what the controller
/// uses.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The namespace whose Workspaces are read.
    #[arg(short, long, value_parser = given, value_name = "NAME")]
    pub namespace: String,

    /// The operator's namespace, where its Lease and its Deployment are.
    #[arg(long, env = "RUN_OPERATOR_LEADER_ELECT_NAMESPACE", default_value = "run-operator", value_parser = given, value_name = "NAME")]
    pub operator_namespace: String,

    /// The name of the operator's Lease and of its Deployment.
    #[arg(long, env = "RUN_OPERATOR_LEADER_ELECT_NAME", default_value = "run-operator", value_parser = given, value_name = "NAME")]
    pub operator_name: String,

    /// Base URL of the service, version segment included. Unset: the service is not tried.
    #[arg(long, env = "RUN_OPERATOR_BASE_URL", value_parser = given, value_name = "URL")]
    pub base_url: Option<String>,

    /// The contract file. Unset: the built-in one.
    #[arg(long, env = "RUN_OPERATOR_CONTRACT", value_name = "FILE")]
    pub contract: Option<PathBuf>,

    #[command(flatten)]
    pub plain_http: PlainHttpArgs,

    #[command(flatten)]
    pub service_proxy: ServiceProxyArgs,
}

impl CheckArgs {
    /// How the service is tried.
    pub fn trial(&self) -> Trial {
        Trial {
            contract: self.contract.clone(),
            ca_file: None,
            allow_insecure_http: self.plain_http.allow_insecure_http,
            h2c: self.plain_http.h2c,
            service_proxy: self.service_proxy.url.clone(),
        }
    }
}

/// Configuration of the controller.
#[derive(Debug, Args)]
pub struct ControllerArgs {
    /// Base URL of the service, version segment included, for Workspaces that name none.
    #[arg(long, env = "RUN_OPERATOR_BASE_URL", value_parser = given, value_name = "URL")]
    pub base_url: Option<String>,

    /// A base URL that a Workspace may name; tokens are sent to no other. Repeatable.
    /// --base-url is always allowed.
    #[arg(
        long = "allowed-base-url",
        env = "RUN_OPERATOR_ALLOWED_BASE_URL",
        value_delimiter = ',',
        value_parser = given,
        value_name = "URL"
    )]
    pub allowed_base_urls: Vec<String>,

    #[command(flatten)]
    pub plain_http: PlainHttpArgs,

    #[command(flatten)]
    pub service_proxy: ServiceProxyArgs,

    /// The contract file. Unset: the built-in one.
    #[arg(long, env = "RUN_OPERATOR_CONTRACT", value_name = "FILE")]
    pub contract: Option<PathBuf>,

    /// An origin of the service's console, such as `https://console.example.com`: a Run's status links to no other.
    /// Repeatable.
    #[arg(
        long = "console-origin",
        env = "RUN_OPERATOR_CONSOLE_ORIGIN",
        value_delimiter = ',',
        value_parser = given,
        value_name = "URL"
    )]
    pub console_origins: Vec<String>,

    /// A namespace to watch. Unset: all. Repeatable.
    #[arg(
        long = "namespace",
        env = "RUN_OPERATOR_NAMESPACE",
        value_delimiter = ',',
        value_parser = namespace,
        value_name = "NAME"
    )]
    pub namespaces: Vec<String>,

    /// Serves ClusterWorkspaces, which needs the permission to watch them and the watched namespaces.
    #[arg(
        long,
        env = "RUN_OPERATOR_CLUSTER_WORKSPACES",
        default_value_t = true,
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    pub cluster_workspaces: bool,

    /// Serves RunSchedules, which needs the permission to create, cancel and delete Runs.
    #[arg(long, env = "RUN_OPERATOR_SCHEDULES")]
    pub schedules: bool,

    /// The namespace of the Secrets that ClusterWorkspaces name. Unset: the operator's own.
    #[arg(
        long,
        env = "RUN_OPERATOR_CLUSTER_RESOURCE_NAMESPACE",
        value_parser = namespace,
        value_name = "NAME"
    )]
    pub cluster_resource_namespace: Option<String>,

    /// The address of /healthz, /readyz and, without --metrics-listen, /metrics. [::] is every address of IPv6 and IPv4;
    /// without IPv6 every one of IPv4.
    #[arg(
        long,
        env = "RUN_OPERATOR_LISTEN",
        default_value = "[::]:8080",
        value_name = "ADDRESS", value_parser = address
    )]
    pub listen: SocketAddr,

    #[command(flatten)]
    pub metrics: MetricsArgs,

    /// Form of the log.
    #[arg(
        long,
        env = "RUN_OPERATOR_LOG_FORMAT",
        default_value = "text",
        value_name = "FORMAT"
    )]
    pub log_format: LogFormat,

    /// Filter of the log, as tracing directives.
    #[arg(
        long,
        env = "RUN_OPERATOR_LOG_FILTER",
        default_value = "info",
        value_parser = given,
        value_name = "DIRECTIVES"
    )]
    pub log_filter: String,

    /// Reconciles of Runs at the same time, in each watched namespace.
    #[arg(long, env = "RUN_OPERATOR_MAX_CONCURRENT_RECONCILES", default_value_t = 64, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub max_concurrent_reconciles: u16,

    /// Event streams open at the same time; further Runs are polled.
    #[arg(
        long,
        env = "RUN_OPERATOR_MAX_STREAMS",
        default_value_t = 10_000,
        value_name = "N"
    )]
    pub max_streams: u32,

    /// Publishes the service's own events as Kubernetes Events, too: the latest one, at most one a minute.
    #[arg(long, env = "RUN_OPERATOR_SERVICE_EVENTS")]
    pub service_events: bool,

    /// The shortest interval between two polls of a run without an event stream, such as 500ms or 5s.
    #[arg(long, env = "RUN_OPERATOR_POLL_MIN", default_value = "5s", value_parser = duration, value_name = "DURATION")]
    pub poll_min: Duration,

    /// The longest interval between two polls, and between two attempts of a refused call, without jitter of up to a
    /// tenth; a longer Retry-After counts instead.
    #[arg(long, env = "RUN_OPERATOR_POLL_MAX", default_value = "5m", value_parser = duration, value_name = "DURATION")]
    pub poll_max: Duration,

    /// Duration of a watch of the API server, 1s to 290s; one that is silent for 5 s longer is restarted as hung.
    #[arg(long, env = "RUN_OPERATOR_WATCH_TIMEOUT", default_value = "2m", value_parser = watch_timeout, value_name = "DURATION")]
    pub watch_timeout: Duration,

    /// Leader election.
    #[command(flatten)]
    pub leader_election: LeaderElectionArgs,
}

/// Services that are reached by plain http.
#[derive(Clone, Copy, Debug, Args)]
pub struct PlainHttpArgs {
    /// Accepts plain http to other machines, not only to loopback addresses.
    #[arg(long, env = "RUN_OPERATOR_ALLOW_INSECURE_HTTP")]
    pub allow_insecure_http: bool,

    /// Speaks HTTP/2 over plain http (h2c), such as with a sidecar; all services with plain http must speak it.
    #[arg(long, env = "RUN_OPERATOR_H2C")]
    pub h2c: bool,
}

/// The way to services by https.
#[derive(Debug, Args)]
pub struct ServiceProxyArgs {
    /// A proxy to all services with https, such as `http://proxy.example.com:3128`, by CONNECT and without a password.
    /// Unset: none, whatever `HTTPS_PROXY` says.
    #[arg(id = "service_proxy", long = "service-proxy", env = "RUN_OPERATOR_SERVICE_PROXY", value_parser = given, value_name = "URL")]
    pub url: Option<String>,
}

/// The metrics: their labels, and whether they are served over TLS.
#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Adds the namespace of Runs, as the label `run_namespace`, to the metrics of their ends, durations and waits: some
    /// 70 series for each namespace. Whoever reads /metrics then sees the names of the namespaces.
    #[arg(
        id = "metrics_namespace_label",
        long = "metrics-namespace-label",
        env = "RUN_OPERATOR_METRICS_NAMESPACE_LABEL"
    )]
    pub namespace_label: bool,

    /// The address of /metrics over TLS, for tokens of the cluster whose user may get the path /metrics.
    #[arg(
        id = "metrics_listen",
        long = "metrics-listen",
        env = "RUN_OPERATOR_METRICS_LISTEN",
        value_parser = address,
        value_name = "ADDRESS"
    )]
    pub address: Option<SocketAddr>,

    /// The certificate of that address with its chain, as PEM; read again when it changes. Unset: self-signed at each
    /// start.
    #[arg(
        id = "metrics_cert",
        long = "metrics-cert",
        env = "RUN_OPERATOR_METRICS_CERT",
        requires = "metrics_listen",
        requires = "metrics_key",
        value_name = "FILE"
    )]
    pub certificate: Option<PathBuf>,

    /// The certificate's private key, as PEM.
    #[arg(
        id = "metrics_key",
        long = "metrics-key",
        env = "RUN_OPERATOR_METRICS_KEY",
        requires = "metrics_listen",
        requires = "metrics_cert",
        value_name = "FILE"
    )]
    pub key: Option<PathBuf>,
}

/// Leader election among several operators.
#[derive(Debug, Args)]
pub struct LeaderElectionArgs {
    /// Of several operators only the holder of a Lease acts; the others wait, with warm caches.
    #[arg(long = "leader-elect", env = "RUN_OPERATOR_LEADER_ELECT")]
    pub enabled: bool,

    /// Time after its last renewal at which the Lease expires and another operator may take over; whole seconds.
    #[arg(long = "leader-elect-lease-duration", env = "RUN_OPERATOR_LEADER_ELECT_LEASE_DURATION", default_value = "15s", value_parser = duration, value_name = "DURATION")]
    pub lease_duration: Duration,

    /// Time for which a leader that can't renew the Lease acts; shorter than the lease duration.
    #[arg(long = "leader-elect-renew-deadline", env = "RUN_OPERATOR_LEADER_ELECT_RENEW_DEADLINE", default_value = "10s", value_parser = duration, value_name = "DURATION")]
    pub renew_deadline: Duration,

    /// Interval at which the Lease is renewed; waiting operators read it twice as often. 1.2 times the interval must
    /// be shorter than the renew deadline.
    #[arg(long = "leader-elect-retry-period", env = "RUN_OPERATOR_LEADER_ELECT_RETRY_PERIOD", default_value = "2s", value_parser = duration, value_name = "DURATION")]
    pub retry_period: Duration,

    /// The namespace of the Lease. Unset: the operator's own.
    #[arg(
        long = "leader-elect-namespace",
        env = "RUN_OPERATOR_LEADER_ELECT_NAMESPACE",
        value_parser = namespace,
        value_name = "NAME"
    )]
    pub namespace: Option<String>,

    /// The name of the Lease; operators that serve different Runs need different ones.
    #[arg(
        long = "leader-elect-name",
        env = "RUN_OPERATOR_LEADER_ELECT_NAME",
        default_value = "run-operator",
        value_parser = lease_name,
        value_name = "NAME"
    )]
    pub name: String,
}

/// Forms of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Refuses an empty value: it comes from a variable that is not set, and the default would often be the wider
/// one, such as all namespaces.
fn given(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        let wrong =
            "the value is empty, as of a variable that is not set; omit the flag for its default";
        return Err(wrong.to_owned());
    }
    Ok(text.to_owned())
}

fn namespace(text: &str) -> Result<String, String> {
    let wrong = "a namespace has 1 to 63 lower-case letters, digits and dashes";
    name(given(text)?.trim(), 63, &['-'], wrong)
}

fn lease_name(text: &str) -> Result<String, String> {
    let wrong = "a Lease has at most 253 lower-case letters, digits, dashes and dots";
    name(&given(text)?, 253, &['-', '.'], wrong)
}

/// A name that has lower-case letters and digits, and `marks` between them.
fn name(text: &str, longest: usize, marks: &[char], wrong: &str) -> Result<String, String> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || marks.contains(&c);
    let bounded = !text.starts_with(marks) && !text.ends_with(marks) && text.len() <= longest;
    if !bounded || !text.chars().all(legal) {
        return Err(wrong.to_owned());
    }
    Ok(text.to_owned())
}

/// Reads `127.0.0.1:8081` or `[::1]:8081`.
fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong =
        |_| "an IP address and a port are needed, such as [::]:8080 or 127.0.0.1:8081".to_owned();
    text.parse().map_err(wrong)
}

/// Reads a duration of whole seconds, within the limits of the API server and kube's watcher.
fn watch_timeout(text: &str) -> Result<Duration, String> {
    let whole = Duration::from_secs(duration(text)?.as_secs());
    if !(1..=290).contains(&whole.as_secs()) {
        return Err(format!("{text:?} is not within 1s and 290s"));
    }
    Ok(whole)
}

/// Reads `500ms`, `5s`, `10m` or `1h`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!("{text:?} is no duration; write a number with ms, s, m or h, such as 500ms or 5m")
    };
    let span: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    let duration = Duration::try_from(span).map_err(|_| wrong())?;
    if duration < Duration::from_millis(10) {
        return Err(format!("{text:?} is too short; the least is 10ms"));
    }
    Ok(duration)
}
