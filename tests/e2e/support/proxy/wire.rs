//! A wire of bytes between two programs, which can be cut, silenced and refused.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, duplex, split,
};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use test_cluster::{ControlPlane, free_port};

/// Bytes that are on their way to a server in this process.
const ON_THE_WAY: usize = 64 << 10;

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

/// The wire's other end.
pub(super) enum Far {
    /// The program at this address.
    Program(SocketAddr),
    /// A server in this process, which takes each connection.
    Server(Box<dyn Fn(DuplexStream) + Send + Sync>),
}

/// A wire. Dropping it cuts it for good.
pub(crate) struct Wire {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    far: Far,
    mode: watch::Sender<Mode>,
    /// Told of each cut.
    cuts: watch::Sender<()>,
    /// Told when the present connections are forgotten.
    forgotten: watch::Sender<()>,
}

impl Wire {
    /// A wire to this address of the same machine: whatever is spoken over it, TLS and HTTP/2 too.
    pub(crate) fn to(address: &str) -> Self {
        Self::new(Far::Program(address.parse().unwrap()))
    }

    /// A wire to the API server, and the administrator's kubeconfig that leads over it, in this folder.
    pub(crate) fn to_api_server(control_plane: &ControlPlane, folder: &Path) -> (Self, PathBuf) {
        let address = format!("127.0.0.1:{}", control_plane.api_port().unwrap());
        let wire = Self::to(&address);
        let text = std::fs::read_to_string(control_plane.kubeconfig()).unwrap();
        let kubeconfig = folder.join("over-the-wire.kubeconfig");
        std::fs::write(
            &kubeconfig,
            text.replace(&address, &wire.address.to_string()),
        )
        .unwrap();
        (wire, kubeconfig)
    }

    pub(super) fn new(far: Far) -> Self {
        let shared = Arc::new(Shared {
            far,
            mode: watch::Sender::new(Mode::Open),
            cuts: watch::Sender::new(()),
            forgotten: watch::Sender::new(()),
        });
        // Not one of the kernel's choice, which could be another's while this wire refuses.
        let (address, socket) = loop {
            let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
            // Another may have taken it meanwhile.
            if let Ok(socket) = held(address) {
                break (address, socket);
            }
        };
        let listener = socket.listen(1024).unwrap();
        Self {
            address,
            accepting: tokio::spawn(accept(listener, address, Arc::clone(&shared))),
            shared,
        }
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
        self.shared.cuts.send_replace(());
    }

    /// Forgets every connection that there is now, as a router does: nothing passes on it any more, and it doesn't end.
    pub(crate) fn forget(&self) {
        self.shared.forgotten.send_replace(());
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

/// The port without a listener, which refuses.
fn held(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn until(mode: &mut watch::Receiver<Mode>, fits: fn(Mode) -> bool) {
    // Its sender is dropped with the wire.
    let _ = mode.wait_for(|mode| fits(*mode)).await;
}

async fn accept(mut listener: TcpListener, address: SocketAddr, shared: Arc<Shared>) {
    let mut mode = shared.mode.subscribe();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((near, _)) = accepted {
                    tokio::spawn(carry(near, Arc::clone(&shared)));
                }
            }
            () = until(&mut mode, |mode| mode == Mode::Refusing) => {
                drop(listener);
                let socket = held(address).unwrap();
                until(&mut mode, |mode| mode != Mode::Refusing).await;
                listener = socket.listen(1024).unwrap();
            }
        }
    }
}

/// One connection, until either side ends it or it is cut.
async fn carry(near: TcpStream, shared: Arc<Shared>) {
    let mut cuts = shared.cuts.subscribe();
    let passing = async {
        match &shared.far {
            Far::Program(address) => {
                if let Ok(far) = TcpStream::connect(address).await {
                    pass(near, far, &shared).await;
                }
            }
            Far::Server(serve) => {
                let (far, theirs) = duplex(ON_THE_WAY);
                serve(theirs);
                pass(near, far, &shared).await;
            }
        }
    };
    tokio::select! {
        () = passing => {}
        _ = cuts.changed() => {}
    }
}

/// Both ways at once.
async fn pass(near: TcpStream, far: impl AsyncRead + AsyncWrite, shared: &Shared) {
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = split(far);
    let mut forgotten = shared.forgotten.subscribe();
    tokio::select! {
        () = pump(&mut from_near, &mut to_far, shared.mode.subscribe()) => {}
        () = pump(&mut from_far, &mut to_near, shared.mode.subscribe()) => {}
        _ = forgotten.changed() => std::future::pending().await,
    }
}

async fn pump(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut mode: watch::Receiver<Mode>,
) {
    let mut buffer = vec![0; ON_THE_WAY];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        until(&mut mode, |mode| mode == Mode::Open).await;
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
