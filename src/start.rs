//! From flags to a running controller. What is wrong with the flags is found here, before anything runs.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::client::ClientBuilder;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::{buffer::BufferLayer, retry::RetryLayer};
use tracing_subscriber::EnvFilter;

use run_operator::controller::leader::{Lost, TimingError};
use run_operator::controller::metrics::{CountRequests, Metrics};
use run_operator::controller::{Config, Controller, OpenFiles, PaceWatches, Patience};
use run_operator::decide::Settings;
use run_operator::service::{AllowList, BaseUrl, BaseUrlError};

use crate::cli::{ControllerArgs, LogFormat};
use crate::contract_file::{self, ContractFileError, Source};
use crate::health;
use crate::leader;

/// To end. Kubernetes kills after 30 s by default. A POST that takes longer is as one whose answer was
/// lost: the next start sends the same one again and learns its run.
const GRACE: Duration = Duration::from_secs(25);
/// To reach the API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The server ends a watch after `--watch-timeout`; a connection that is silent for so much longer hangs.
const SILENCE: Duration = Duration::from_secs(6);
/// To hear from the API server, for a command that watches nothing.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// Requests that may wait for the connection; kube's own bound.
const REQUESTS_WAITING: usize = 1024;

/// Why the controller doesn't start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Contract(#[from] ContractFileError),
    #[error("failed to use --base-url")]
    BaseUrl(#[source] BaseUrlError),
    /// By its place: what is in it may be a password.
    #[error("failed to use --allowed-base-url number {number}")]
    AllowedBaseUrl { number: usize, source: BaseUrlError },
    #[error("failed to use --log-filter {filter:?}")]
    LogFilter {
        filter: String,
        source: tracing_subscriber::filter::ParseError,
    },
    #[error("failed to use --poll-min and --poll-max: {min:?} is longer than {max:?}")]
    PollOrder { min: Duration, max: Duration },
    #[error("failed to listen on {address}")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("failed to start the health server")]
    Health(#[source] std::io::Error),
    #[error("failed to find a cluster: no kubeconfig and no service account")]
    Kubeconfig(#[source] kube::config::InferConfigError),
    #[error("failed to set up the Kubernetes client")]
    Client(#[source] kube::Error),
    #[error("a loop of the controller ended by itself; its log says which")]
    LoopEnded,
    #[error(
        "failed to use {flag} {name:?}: a namespace has 1 to 63 lower-case letters, digits and dashes"
    )]
    Namespace { flag: &'static str, name: String },
    #[error(
        "failed to use --leader-elect-lease-duration, --leader-elect-renew-deadline and --leader-elect-retry-period"
    )]
    LeaseTiming(#[source] TimingError),
    #[error(
        "failed to use --leader-elect-name {name:?}: a Lease has at most 253 lower-case letters, digits, dashes and dots"
    )]
    LeaseName { name: String },
    #[error("lost the lease, and ended at once")]
    LeaseLost(#[source] Lost),
    #[error("failed to handle signals")]
    Signals(#[source] std::io::Error),
    #[cfg(feature = "proofs")]
    #[error("{0}")]
    Points(String),
}

/// Runs the controller until a signal.
pub(crate) async fn controller(args: ControllerArgs) -> Result<(), StartError> {
    start_logging(&args)?;
    #[cfg(feature = "proofs")]
    run_operator::points::check().map_err(StartError::Points)?;
    let mut config = config(&args)?;
    let wanted = leader::wanted(&args.leader_election)?;
    let metrics = Arc::new(Metrics::new());
    let client = client(&metrics, args.watch_timeout + SILENCE).await?;
    if config.cluster_resource_namespace.is_empty() {
        client
            .default_namespace()
            .clone_into(&mut config.cluster_resource_namespace);
    }
    let listener = listen(args.listen).await?;
    // Behind all that can be wrong: an error stands on one line.
    config.max_streams = OpenFiles::raise().streams(config.max_streams);
    let shutdown = CancellationToken::new();
    let identity = &config.settings.process;
    let (mut election, leading) = leader::begin(wanted, identity, &metrics).await?;
    let controller = Controller::new(client, config, metrics, leading, shutdown.clone());
    health::start(listener, controller.probe(), shutdown.clone()).map_err(StartError::Health)?;
    end_on_signal(shutdown.clone())?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), listen = %args.listen, "run-operator starts");
    let running = tokio::spawn(controller.run());
    let ended = tokio::select! {
        // Nothing is waited for: the next leader may have begun.
        lost = election.lost() => return Err(StartError::LeaseLost(lost)),
        ended = until_the_end(&shutdown, running) => ended,
    };
    // What didn't end in time may still act: then the next leader waits for the lease to end.
    if ended.is_some() {
        election.resign().await;
    }
    tracing::info!("run-operator has ended");
    match ended {
        Some(asked_for) if !asked_for => Err(StartError::LoopEnded),
        _ => Ok(()),
    }
}

async fn listen(address: SocketAddr) -> Result<std::net::TcpListener, StartError> {
    let bound = TcpListener::bind(address).await;
    let listener = bound.and_then(TcpListener::into_std);
    listener.map_err(|source| StartError::Listen { address, source })
}

/// Waits for a signal, then for what is under way. Returns whether the end was asked for; nothing, if
/// something is still under way.
async fn until_the_end(shutdown: &CancellationToken, running: JoinHandle<bool>) -> Option<bool> {
    shutdown.cancelled().await;
    tracing::info!("shutting down; no new call is started");
    let ended = tokio::time::timeout(GRACE, running).await;
    if ended.is_err() {
        tracing::warn!(
            seconds = GRACE.as_secs(),
            "reconciles under way did not end in time; their outcome is learnt at the next start"
        );
    }
    ended.ok()?.ok()
}

/// Everything that a token may be sent to. Each is read by itself first, to name the one that is wrong.
fn allow_list(args: &ControllerArgs) -> Result<AllowList, StartError> {
    let insecure = args.allow_insecure_http;
    AllowList::parse(&args.base_url, insecure).map_err(StartError::BaseUrl)?;
    for (before, url) in args.allowed_base_urls.iter().enumerate() {
        AllowList::parse([url], insecure).map_err(|source| StartError::AllowedBaseUrl {
            number: before + 1,
            source,
        })?;
    }
    let all = args.base_url.iter().chain(&args.allowed_base_urls);
    AllowList::parse(all, insecure).map_err(StartError::BaseUrl)
}

fn config(args: &ControllerArgs) -> Result<Config, StartError> {
    if args.poll_min > args.poll_max {
        return Err(StartError::PollOrder {
            min: args.poll_min,
            max: args.poll_max,
        });
    }
    let source = Source::file_or_builtin(args.contract.as_deref());
    let contract = Arc::new(contract_file::load(&source)?);
    let allow_list = allow_list(args)?;
    let base_url = match &args.base_url {
        Some(url) => Some(
            BaseUrl::parse(url, &allow_list)
                .map_err(StartError::BaseUrl)?
                .as_str()
                .to_owned(),
        ),
        None => None,
    };
    let settings = Settings {
        process: process_name(),
        poll_min: args.poll_min,
        poll_max: args.poll_max,
    };
    Ok(Config {
        base_url,
        allow_list,
        contract,
        namespaces: namespaces(&args.namespaces)?,
        cluster_workspaces: args.cluster_workspaces,
        // Filled in by what the cluster's configuration says, if unset.
        cluster_resource_namespace: args
            .cluster_resource_namespace
            .as_deref()
            .map(|name| namespace(name, "--cluster-resource-namespace"))
            .transpose()?
            .unwrap_or_default(),
        settings,
        max_concurrent_reconciles: args.max_concurrent_reconciles,
        max_streams: usize::try_from(args.max_streams).unwrap_or(usize::MAX),
        watch_timeout: args.watch_timeout,
    })
}

/// The namespaces, each once. Empty values are refused when the flags are read.
fn namespaces(given: &[String]) -> Result<Vec<String>, StartError> {
    let mut names = std::collections::BTreeSet::new();
    for name in given.iter().map(|name| name.trim()) {
        names.insert(namespace(name, "--namespace")?);
    }
    Ok(names.into_iter().collect())
}

pub(crate) fn namespace(name: &str, flag: &'static str) -> Result<String, StartError> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.len() > 63 || !name.chars().all(legal) || name.starts_with('-') || name.ends_with('-') {
        return Err(StartError::Namespace {
            flag,
            name: name.to_owned(),
        });
    }
    Ok(name.to_owned())
}

/// Names this very process: its Pod, so that a person finds it, and a random part, since a container
/// that restarts keeps its Pod's name but not its memory.
fn process_name() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "local".to_owned());
    format!("{host}/{}", uuid::Uuid::new_v4())
}

/// A client of the cluster that the environment names, for a command that is over soon.
pub(crate) async fn plain_client() -> Result<kube::Client, StartError> {
    kube::Client::try_from(cluster(READ_TIMEOUT).await?).map_err(StartError::Client)
}

async fn cluster(read_timeout: Duration) -> Result<kube::Config, StartError> {
    let mut config = kube::Config::infer()
        .await
        .map_err(StartError::Kubeconfig)?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(read_timeout);
    // kube names no agent; the API server's audit log should.
    let agent = concat!("run-operator/", env!("CARGO_PKG_VERSION"));
    config
        .headers
        .push((USER_AGENT, HeaderValue::from_static(agent)));
    Ok(config)
}

/// A client for the Lease: each attempt is decided anew, so that it repeats nothing, and it shares no
/// connection with what else is asked.
pub(crate) async fn lease_client(metrics: &Arc<Metrics>) -> Result<kube::Client, StartError> {
    let (config, count) = counted(metrics, READ_TIMEOUT).await?;
    let client = ClientBuilder::try_from(config).map_err(StartError::Client)?;
    #[cfg(feature = "proofs")]
    let client = client.with_layer(&run_operator::points::kubernetes::Writes);
    Ok(client.with_layer(&count).build())
}

async fn client(
    metrics: &Arc<Metrics>,
    read_timeout: Duration,
) -> Result<kube::Client, StartError> {
    let (config, count) = counted(metrics, read_timeout).await?;
    let client = ClientBuilder::try_from(config).map_err(StartError::Client)?;
    #[cfg(feature = "proofs")]
    let client = client.with_layer(&run_operator::points::kubernetes::Writes);
    Ok(client
        .with_layer(&count)
        .with_layer(&BufferLayer::new(REQUESTS_WAITING))
        .with_layer(&RetryLayer::new(Patience::default()))
        .with_layer(&PaceWatches::default())
        .build())
}

/// How to reach the cluster, and what counts the requests.
async fn counted(
    metrics: &Arc<Metrics>,
    read_timeout: Duration,
) -> Result<(kube::Config, CountRequests), StartError> {
    let mut config = cluster(read_timeout).await?;
    // The client's own repetitions come after the layer that counts, so that each attempt does.
    config.default_retry = false;
    let count = CountRequests::new(Arc::clone(metrics), &config.cluster_url);
    Ok((config, count))
}

fn start_logging(args: &ControllerArgs) -> Result<(), StartError> {
    let filter = EnvFilter::try_new(&args.log_filter).map_err(|source| StartError::LogFilter {
        filter: args.log_filter.clone(),
        source,
    })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match args.log_format {
        LogFormat::Text => log.init(),
        // The innermost span alone: the list would repeat it.
        LogFormat::Json => log.json().flatten_event(true).with_span_list(false).init(),
    }
    Ok(())
}

fn end_on_signal(shutdown: CancellationToken) -> Result<(), StartError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(StartError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(StartError::Signals)?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shutdown.cancel();
    });
    Ok(())
}
