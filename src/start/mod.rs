//! Starts the controller from flags. Wrong flags are reported before anything runs.

mod clients;
mod config;
mod error;
mod listen;

use std::io::IsTerminal;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use run_operator::controller::leader::{Elector, Leading, Lost, Timing};
use run_operator::controller::{Config, Controller, metrics::Metrics};
use run_operator::util::{Failed, failed};

use crate::cli::{ControllerArgs, LeaderElectionArgs, LogFormat, MetricsArgs};
use crate::health::{self, Certificates, SecureMetrics};

pub(crate) use clients::plain_client;
use clients::{SILENCE, check_version, client, separate_client};
use config::{config, process_name, streams_by_open_files};
pub(crate) use error::StartError;

/// Time for the shutdown. Kubernetes kills the process after 30 s by default. A POST that takes longer counts as one
/// whose answer was lost: the next process repeats it and obtains its run.
const GRACE: Duration = Duration::from_secs(25);

/// Time for the threads of a term that has ended. A lookup of a name, which can't be interrupted, may take longer.
const TERM_END: Duration = Duration::from_secs(5);

const LEASE_TIMING: &str = "use --leader-elect-lease-duration, --leader-elect-renew-deadline and --leader-elect-retry-period";

/// Runs until a signal. A process that loses its Lease goes on as a new one: each term has a runtime, a name and a memory
/// of its own, so that what two processes can't do to a Run, two terms can't either. A restart by the kubelet would wait
/// for up to five minutes if the Lease is lost again and again.
pub(crate) fn controller(args: ControllerArgs) -> Result<(), StartError> {
    start_logging(&args)?;
    let config = config(&args)?;
    let election = &args.leader_election;
    let (lease, renew) = (election.lease_duration, election.renew_deadline);
    let timing = Timing::new(lease, renew, election.retry_period);
    let timing = timing.map_err(failed(LEASE_TIMING))?;
    let certificates = certificates(&args.metrics)?;
    let listener = listen(args.listen)?;
    let secure = certificates.map(|(address, certificates)| {
        let listener = listen(address)?;
        Ok::<_, Failed>((listener, certificates))
    });
    let mut process = Process {
        secure: secure.transpose()?,
        shutdown: CancellationToken::new(),
        is_new: true,
        args,
        config,
        timing,
        listener,
    };
    end_on_signal(process.shutdown.clone())?;
    loop {
        let runtime = runtime()?;
        let ended = runtime.block_on(process.term());
        let Ok(Some(lost)) = ended else {
            // What remains, such as open streams, has nothing to finish.
            runtime.shutdown_background();
            return ended.map(drop);
        };
        // Ends every task of the term where it waits, as a crash would.
        runtime.shutdown_timeout(TERM_END);
        process.is_new = false;
        tracing::warn!(
            reason = %lost,
            "lost the Lease: everything is forgotten, and a new term stands by under a new name"
        );
    }
}

pub(crate) fn runtime() -> Result<Runtime, Failed> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build();
    runtime.map_err(failed("start the runtime"))
}

/// What outlasts a term.
struct Process {
    args: ControllerArgs,
    config: Config,
    timing: Timing,
    listener: TcpListener,
    secure: Option<(TcpListener, Arc<Certificates>)>,
    shutdown: CancellationToken,
    /// This is its first term.
    is_new: bool,
}

impl Process {
    /// Stands by, leads, and ends: after a signal, or with the loss of the Lease and whatever is in flight.
    async fn term(&self) -> Result<Option<Lost>, StartError> {
        let mut config = self.config.clone();
        config.settings.process = process_name();
        let metrics = Metrics::new().with_namespaces(self.args.metrics.namespace_label);
        let metrics = Arc::new(metrics);
        let client = client(&metrics, config.watch_timeout + SILENCE).await?;
        if config.cluster_resource_namespace.is_empty() {
            client
                .default_namespace()
                .clone_into(&mut config.cluster_resource_namespace);
        }
        if self.is_new {
            check_version(&client).await?;
        }
        let (listener, secure) = self.listeners(&metrics).await?;
        // After every check of the flags, so that an error is the only line logged.
        config.max_streams = streams_by_open_files(config.max_streams);
        // A loop that ends early ends its term only.
        let (args, shutdown) = (&self.args, self.shutdown.child_token());
        let identity = &config.settings.process;
        let (mut election, leading) =
            Election::begin(&args.leader_election, self.timing, identity, &metrics).await?;
        let controller = Controller::new(client, config, metrics, leading, shutdown.clone());
        let serving = shutdown.child_token();
        let _serving = serving.clone().drop_guard();
        health::start(listener, secure, &controller.probe(), &serving)
            .map_err(failed("start the health server"))?;
        if self.is_new {
            tracing::info!(version = env!("CARGO_PKG_VERSION"), listen = %args.listen, "run-operator is starting");
        }
        let running = tokio::spawn(controller.run());
        let ended = tokio::select! {
            // Ends without waiting: another process may already lead.
            lost = election.lost() => return lost.map(Some),
            ended = until_the_end(&shutdown, running) => ended,
        };
        // If it didn't end in time it may still act: the next leader then waits for the lease to expire.
        if ended.is_some() {
            election.resign().await;
        }
        tracing::info!("run-operator has ended");
        match ended {
            Some(false) => Err(StartError::LoopEnded),
            _ => Ok(None),
        }
    }

    /// Handles to the sockets: between two terms connections wait for the next one.
    async fn listeners(
        &self,
        metrics: &Arc<Metrics>,
    ) -> Result<(TcpListener, Option<SecureMetrics>), Failed> {
        let again = |listener: &TcpListener| {
            let listener = listener.try_clone();
            listener.map_err(failed("use the health server's socket again"))
        };
        let secure = match &self.secure {
            Some((listener, certificates)) => Some(SecureMetrics {
                client: separate_client(metrics).await?,
                listener: again(listener)?,
                certificates: Arc::clone(certificates),
            }),
            None => None,
        };
        Ok((again(&self.listener)?, secure))
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, Failed> {
    let bound = listen::bind(address, TcpListener::bind);
    let listener = bound.and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(failed(format!("listen on {address}")))
}

fn certificates(args: &MetricsArgs) -> Result<Option<(SocketAddr, Arc<Certificates>)>, Failed> {
    let files = args.certificate.clone().zip(args.key.clone());
    let of = |address| Ok((address, Arc::new(Certificates::new(files)?)));
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

/// Ends at SIGINT (Ctrl-C) or SIGTERM, which the first process of a container would ignore otherwise. On a thread of its
/// own: a signal between two terms counts too.
fn end_on_signal(shutdown: CancellationToken) -> Result<(), Failed> {
    let wrong = || failed("handle signals");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(wrong())?;
    let entered = runtime.enter();
    let mut terminate = signal(SignalKind::terminate()).map_err(wrong())?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(wrong())?;
    drop(entered);
    let wait = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shutdown.cancel();
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    let thread = thread.spawn(move || runtime.block_on(wait));
    thread.map(drop).map_err(wrong())
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

    /// An election that ends otherwise has panicked: it was not asked to resign.
    async fn lost(&mut self) -> Result<Lost, StartError> {
        match (&mut self.running).await {
            Ok(Err(lost)) => Ok(lost),
            Ok(Ok(())) | Err(_) => Err(StartError::LoopEnded),
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
