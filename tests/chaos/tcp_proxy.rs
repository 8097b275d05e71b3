//! A wire between two programs, which can be cut: a proxy of bytes on 127.0.0.1.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::{Setup, World};
use test_cluster::{ControlPlane, free_port};

/// The first bytes of every create.
const CREATE: &[u8] = b"POST /api/v1/runs HTTP/1.1\r\n";
/// Time for the answer to a doubled request, which is discarded.
const LISTEN: Duration = Duration::from_secs(10);

/// The state of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Bytes pass.
    Open,
    /// Connections are taken, and nothing passes.
    Silent,
    /// Connections are refused.
    Refusing,
}

/// A wire. Dropping it cuts it for good.
pub(crate) struct Wire {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    to: SocketAddr,
    mode: watch::Sender<Mode>,
    /// Grows with each cut.
    cuts: watch::Sender<u64>,
    /// Creates are sent a second time, so many milliseconds later; 0: they aren't.
    double_after: AtomicU64,
    doubled: AtomicU64,
}

/// A world on this control plane, with a Workspace and no operator, and a wire to its service.
pub(crate) async fn wired(control_plane: &'static ControlPlane) -> (World, Wire) {
    let world = World::unattended(Setup {
        control_plane: Some(control_plane),
        ..Setup::default()
    })
    .await;
    let to_service = Wire::to(world.service.address());
    (world, to_service)
}

impl Wire {
    /// A wire to this address of the same machine.
    pub(crate) fn to(address: &str) -> Self {
        let shared = Arc::new(Shared {
            to: address.parse().unwrap(),
            mode: watch::Sender::new(Mode::Open),
            cuts: watch::Sender::new(0),
            double_after: AtomicU64::new(0),
            doubled: AtomicU64::new(0),
        });
        let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        Self {
            address,
            accepting: tokio::spawn(accept(address, Arc::clone(&shared))),
            shared,
        }
    }

    /// An operator's arguments, with which it reaches the service over this wire.
    pub(crate) fn args(&self, log_filter: &str) -> Vec<String> {
        let base_url = format!("http://{}/api/v1", self.address);
        ["--base-url", &base_url, "--log-filter", log_filter]
            .map(str::to_owned)
            .into()
    }

    /// Its address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Bytes pass from now on.
    pub(crate) fn open(&self) {
        self.shared.mode.send_replace(Mode::Open);
    }

    /// Nothing passes from now on; connections stay.
    pub(crate) fn silence(&self) {
        self.shared.mode.send_replace(Mode::Silent);
    }

    /// No connection is left, and new ones are refused.
    pub(crate) fn refuse(&self) {
        self.shared.mode.send_replace(Mode::Refusing);
        self.cut();
    }

    /// Cuts every connection that there is now.
    pub(crate) fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Sends every create a second time, so much later; `None`: no more.
    pub(crate) fn double(&self, after: Option<Duration>) {
        let millis = after.map_or(0, |after| u64::try_from(after.as_millis()).unwrap().max(1));
        self.shared.double_after.store(millis, Ordering::Relaxed);
    }

    /// The number of creates that were sent twice.
    pub(crate) fn doubled(&self) -> u64 {
        self.shared.doubled.load(Ordering::Relaxed)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

/// Listens, or holds the port without listening, which refuses.
async fn accept(address: SocketAddr, shared: Arc<Shared>) {
    let mut mode = shared.mode.subscribe();
    loop {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        if mode.wait_for(|m| *m != Mode::Refusing).await.is_err() {
            return;
        }
        let listener = socket.listen(1024).unwrap();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    if let Ok((stream, _)) = accepted {
                        tokio::spawn(carry(stream, Arc::clone(&shared)));
                    }
                }
                changed = mode.wait_for(|m| *m == Mode::Refusing) => {
                    if changed.is_err() {
                        return;
                    }
                    break;
                }
            }
        }
    }
}

/// One connection, until either side ends it or it is cut.
async fn carry(near: TcpStream, shared: Arc<Shared>) {
    let mut cuts = shared.cuts.subscribe();
    cuts.mark_unchanged();
    let Ok(far) = TcpStream::connect(shared.to).await else {
        return;
    };
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    tokio::select! {
        () = pump(near_read, far_write, &shared, true) => {}
        () = pump(far_read, near_write, &shared, false) => {}
        _ = cuts.changed() => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Arc<Shared>,
    requests: bool,
) {
    let mut mode = shared.mode.subscribe();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if mode.wait_for(|m| *m == Mode::Open).await.is_err() {
            return;
        }
        let bytes = &buffer[..length];
        let after = shared.double_after.load(Ordering::Relaxed);
        if requests && after > 0 && whole_create(bytes) {
            let after = Duration::from_millis(after);
            tokio::spawn(again(bytes.to_vec(), after, Arc::clone(shared)));
        }
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

/// True if these bytes are a create, from its first line to the end of its body.
fn whole_create(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.eq_ignore_ascii_case("content-length")).then(|| value.trim().parse().ok())?
    });
    bytes.starts_with(CREATE) && length == Some(body.len())
}

/// The same request on a connection of its own.
async fn again(request: Vec<u8>, after: Duration, shared: Arc<Shared>) {
    tokio::time::sleep(after).await;
    let Ok(mut far) = TcpStream::connect(shared.to).await else {
        return;
    };
    if far.write_all(&request).await.is_ok() {
        shared.doubled.fetch_add(1, Ordering::Relaxed);
        let mut answer = [0; 1024];
        let _ = tokio::time::timeout(LISTEN, far.read(&mut answer)).await;
    }
}
