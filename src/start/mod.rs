//! Starts the controller from flags. Wrong flags are reported before anything runs.

mod clients;
mod config;
mod error;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use run_operator::controller::leader::{Elector, Leading, Lost, Timing};
use run_operator::controller::{Controller, metrics::Metrics};
use run_operator::util::{Failed, failed};

use crate::cli::{ControllerArgs, LeaderElectionArgs, LogFormat, SecureMetricsArgs};
use crate::health::{self, Certificates, SecureMetrics};

pub(crate) use clients::plain_client;
use clients::{SILENCE, check_version, client, separate_client};
use config::{config, streams_by_open_files};
pub(crate) use error::StartError;

/// Time for the shutdown. Kubernetes kills the process after 30 s by default. A POST that takes longer counts as one
/// whose answer was lost: the next process repeats it and obtains its run.
const GRACE: Duration = Duration::from_secs(25);

const LEASE_TIMING: &str = "use --leader-elect-lease-duration, --leader-elect-renew-deadline and --leader-elect-retry-period";

pub(crate) async fn controller(args: ControllerArgs) -> Result<(), StartError> {
    start_logging(&args)?;
    let mut config = config(&args)?;
    let election = &args.leader_election;
    let (lease, renew) = (election.lease_duration, election.renew_deadline);
    let timing = Timing::new(lease, renew, election.retry_period);
    let timing = timing.map_err(failed(LEASE_TIMING))?;
    let certificates = certificates(&args.secure_metrics)?;
    let metrics = Arc::new(Metrics::new());
    let client = client(&metrics, args.watch_timeout + SILENCE).await?;
    if config.cluster_resource_namespace.is_empty() {
        client
            .default_namespace()
            .clone_into(&mut config.cluster_resource_namespace);
    }
    let listener = listen(args.listen).await?;
    check_version(&client).await?;
    let secure = match certificates {
        Some((address, certificates)) => Some(SecureMetrics {
            client: separate_client(&metrics).await?,
            listener: listen(address).await?,
            certificates,
        }),
        None => None,
    };
    // After every check of the flags, so that an error is the only line logged.
    config.max_streams = streams_by_open_files(config.max_streams);
    let shutdown = CancellationToken::new();
    let identity = &config.settings.process;
    let (mut election, leading) = Election::begin(election, timing, identity, &metrics).await?;
    let controller = Controller::new(client, config, metrics, leading, shutdown.clone());
    health::start(listener, secure, &controller.probe(), &shutdown)
        .map_err(failed("start the health server"))?;
    end_on_signal(shutdown.clone())?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), listen = %args.listen, "run-operator is starting");
    let running = tokio::spawn(controller.run());
    let ended = tokio::select! {
        // Ends without waiting: another process may already lead.
        lost = election.lost() => return Err(StartError::LeaseLost(lost)),
        ended = until_the_end(&shutdown, running) => ended,
    };
    // If it didn't end in time it may still act: the next leader then waits for the lease to expire.
    if ended.is_some() {
        election.resign().await;
    }
    tracing::info!("run-operator has ended");
    match ended {
        Some(false) => Err(StartError::LoopEnded),
        _ => Ok(()),
    }
}

async fn listen(address: SocketAddr) -> Result<std::net::TcpListener, Failed> {
    let bound = TcpListener::bind(address).await;
    let listener = bound.and_then(TcpListener::into_std);
    listener.map_err(failed(format!("listen on {address}")))
}

fn certificates(args: &SecureMetricsArgs) -> Result<Option<(SocketAddr, Certificates)>, Failed> {
    let files = args.certificate.clone().zip(args.key.clone());
    let of = |address| Ok((address, Certificates::new(files)?));
    let certificates = args.address.map(of).transpose();
    certificates.map_err(failed::<Failed>("serve the metrics over TLS"))
}

/// Waits for a signal, then for what is in flight. `None` if something is still in flight or panicked.
async fn until_the_end(shutdown: &CancellationToken, running: JoinHandle<bool>) -> Option<bool> {
    shutdown.cancelled().await;
    tracing::info!("shutting down; no new call is started");
    let ended = tokio::time::timeout(GRACE, running).await;
    if ended.is_err() {
        tracing::warn!(
            seconds = GRACE.as_secs(),
            "shutdown timed out with reconciles in flight; the next process determines their outcome"
        );
    }
    ended.ok()?.ok()
}

fn start_logging(args: &ControllerArgs) -> Result<(), Failed> {
    let filter = EnvFilter::try_new(&args.log_filter);
    let filter = filter.map_err(failed(format!("use --log-filter {:?}", args.log_filter)))?;
    let filter = filter.and(filter_fn(|event| !may_show_an_answer(event)));
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let registry = tracing_subscriber::registry();
    match args.log_format {
        LogFormat::Text => registry.with(log.with_filter(filter)).init(),
        // Only the innermost span: the span list would repeat it.
        LogFormat::Json => {
            let log = log.json().flatten_event(true).with_span_list(false);
            registry.with(log.with_filter(filter)).init();
        }
    }
    Ok(())
}

/// kube's client warns with the whole of an answer that it can't decode, and a workload may be in it.
fn may_show_an_answer(event: &Metadata<'_>) -> bool {
    event.target() == "kube_client::client" && *event.level() == Level::WARN
}

/// Ends at SIGINT (Ctrl-C) or SIGTERM, which the first process of a container would ignore otherwise.
fn end_on_signal(shutdown: CancellationToken) -> Result<(), Failed> {
    let asked = |kind| signal(kind).map_err(failed("handle signals"));
    let mut terminate = asked(SignalKind::terminate())?;
    let mut interrupt = asked(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shutdown.cancel();
    });
    Ok(())
}

struct Election {
    running: JoinHandle<Result<(), Lost>>,
    resign: CancellationToken,
}

impl Election {
    /// Joins the election. Without one this process leads at once.
    async fn begin(
        args: &LeaderElectionArgs,
        timing: Timing,
        identity: &str,
        metrics: &Arc<Metrics>,
    ) -> Result<(Self, Leading), Failed> {
        let resign = CancellationToken::new();
        let resigned = resign.clone();
        if !args.enabled {
            let running = tokio::spawn(async move {
                resigned.cancelled().await;
                Ok(())
            });
            return Ok((Self { running, resign }, Leading::always()));
        }
        let client = separate_client(metrics).await?;
        let namespace = args.namespace.as_deref();
        let namespace = namespace.unwrap_or_else(|| client.default_namespace());
        let leases = Api::namespaced(client.clone(), namespace);
        let metrics = Arc::clone(metrics);
        let (elector, leading) = Elector::new(leases, &args.name, identity, timing, metrics);
        let running = tokio::spawn(elector.run(resigned));
        Ok((Self { running, resign }, leading))
    }

    async fn lost(&mut self) -> Lost {
        match (&mut self.running).await {
            Ok(Err(lost)) => lost,
            // It was not asked to resign, so it ended in error; a panic is reported too.
            Ok(Ok(())) | Err(_) => Lost::Ended,
        }
    }

    /// Releases the Lease. The process must have stopped acting.
    async fn resign(self) {
        self.resign.cancel();
        if let Ok(Err(lost)) = self.running.await {
            tracing::debug!(error = %lost, "the lease was already lost; nothing to release");
        }
    }
}
