//! The tests' control plane, by hand: `cargo xtask cluster up` boots one and prints the line that points kubectl at it.

use std::io::Write;

use clap::{Args, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use test_cluster::{Binaries, ControlPlane, Error, Options};

use crate::common::Outcome;

#[derive(Subcommand)]
pub(crate) enum Action {
    /// Build the programs that are missing, once, into the cache.
    Build(With),
    /// Boot one and stay until Ctrl-C, SIGTERM or the end of standard input; leave nothing behind.
    Up(With),
}

#[derive(Args)]
pub(crate) struct With {
    /// With kube-controller-manager: deletion of namespaces, garbage collection, service accounts.
    #[arg(long)]
    controller_manager: bool,

    /// With kube-controller-manager, kube-scheduler, containerd and a kubelet, for Pods of the host network:
    /// needs root, containerd and runc.
    #[arg(long)]
    node: bool,
}

impl With {
    fn options(&self) -> Options {
        Options {
            controller_manager: self.controller_manager,
            node: self.node,
        }
    }
}

/// Does what was asked for.
pub(crate) fn run(action: &Action) -> Outcome<()> {
    match action {
        Action::Build(with) => {
            let tools = with.options().tools();
            let binaries = Binaries::find_or_build(&tools)?;
            for tool in tools {
                print(&binaries.path(tool).display().to_string());
            }
            Ok(())
        }
        Action::Up(with) => {
            let runtime = tokio::runtime::Runtime::new().map_err(Error::Runtime)?;
            let result = runtime.block_on(stay_up(with.options()));
            // A build that Ctrl-C has interrupted is not waited for: it ends with us.
            runtime.shutdown_background();
            Ok(result?)
        }
    }
}

async fn stay_up(options: Options) -> Result<(), Error> {
    let mut stopped = std::pin::pin!(stop_requested());
    let control_plane = tokio::select! {
        started = ControlPlane::start(options) => started?,
        result = &mut stopped => return result,
    };
    let kubeconfig = control_plane.kubeconfig().display();
    print(&format!("export KUBECONFIG={kubeconfig}"));
    if let Ok(socket) = control_plane.containerd() {
        // As `ctr images import IMAGE.tar` reads them.
        print(&format!(
            "export CONTAINERD_ADDRESS={} CONTAINERD_NAMESPACE=k8s.io CONTAINERD_SNAPSHOTTER=native",
            socket.display()
        ));
    }
    stopped.await
}

/// Ready at Ctrl-C, SIGTERM or the end of standard input.
async fn stop_requested() -> Result<(), Error> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Runtime)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Runtime)?;
    let (ended, end_of_input) = tokio::sync::oneshot::channel::<()>();
    // A thread of its own: a read of standard input can't be cancelled, and would hold up the exit.
    std::thread::spawn(move || {
        // An input that can't be read is as good as one that has ended.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(ended);
    });
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = end_of_input => eprintln!("cluster: standard input has ended, stopping"),
    }
    Ok(())
}

/// A line on standard output, at once.
fn print(line: &str) {
    let mut stdout = std::io::stdout();
    // Fails when standard output is closed.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
