//! The tests' control plane, by hand: `cargo xtask cluster up` boots one and prints the line that points kubectl at it.

use clap::{Args, Subcommand};
use test_cluster::{Binaries, ControlPlane, Options};

use crate::common::{Interrupt, Outcome, block_on, print};

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
        Action::Up(with) => block_on(stay_up(with.options())),
    }
}

async fn stay_up(options: Options) -> Outcome<()> {
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

/// Ready at a signal or the end of standard input.
async fn stop_requested() -> Outcome<()> {
    let mut interrupt = Interrupt::new()?;
    let (ended, end_of_input) = tokio::sync::oneshot::channel::<()>();
    // A thread of its own: a read of standard input can't be cancelled, and would hold up the exit.
    std::thread::spawn(move || {
        // An input that can't be read is as good as one that has ended.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(ended);
    });
    tokio::select! {
        () = interrupt.asked() => {}
        _ = end_of_input => eprintln!("cluster: standard input has ended, stopping"),
    }
    Ok(())
}
