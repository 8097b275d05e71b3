//! A server of bytes: what it does is written down as [`Step`]s, what arrives is recorded.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A step of the server once a request is there. After the last step it reads the next request.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Closes the connection.
    Close,
    /// Neither sends nor closes until the test is over.
    Hang,
    /// Waits until the test calls [`Server::go`] so many times.
    Await(usize),
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    /// Request line and headers.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Arrived {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap()
    }

    /// The values of all headers of this name.
    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        self.head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "))
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect()
    }

    /// The names of all headers, in lower case and in order of the alphabet.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self
            .head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .map(|(name, _)| name.to_ascii_lowercase())
            .collect();
        names.sort();
        names
    }
}

/// A server on a loopback port of its own; ends with the test.
pub(crate) struct Server {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<Arrived>>>,
    go: watch::Sender<usize>,
    task: JoinHandle<()>,
}

struct Shared {
    scripts: Mutex<VecDeque<Vec<Step>>>,
    requests: Arc<Mutex<Vec<Arrived>>>,
    go: watch::Receiver<usize>,
}

impl Server {
    /// One script for each request, in the order in which they arrive. A request beyond them is
    /// recorded and its connection closed.
    pub(crate) async fn start(scripts: impl IntoIterator<Item = Vec<Step>>) -> Self {
        Self::start_with(scripts, None).await
    }

    /// The same behind TLS.
    pub(crate) async fn start_with(
        scripts: impl IntoIterator<Item = Vec<Step>>,
        tls: Option<tokio_rustls::TlsAcceptor>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::default();
        let (go, gone) = watch::channel(0);
        let shared = Arc::new(Shared {
            scripts: Mutex::new(scripts.into_iter().collect()),
            requests: Arc::clone(&requests),
            go: gone,
        });
        let task = tokio::spawn(async move {
            // Owned here, so that every connection ends with the server.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let Ok((socket, _)) = listener.accept().await else {
                    return;
                };
                let shared = Arc::clone(&shared);
                let tls = tls.clone();
                connections.spawn(async move {
                    match tls {
                        None => serve(socket, &shared).await,
                        Some(tls) => match tls.accept(socket).await {
                            Ok(socket) => serve(socket, &shared).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self {
            port,
            requests,
            go,
            task,
        }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/api/v1", self.port)
    }

    /// The requests that arrived so far.
    pub(crate) fn requests(&self) -> Vec<Arrived> {
        self.requests.lock().unwrap().clone()
    }

    /// The only request that arrived.
    pub(crate) fn request(&self) -> Arrived {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }

    /// Lets the next [`Step::Await`] pass.
    pub(crate) fn go(&self) {
        self.go.send_modify(|count| *count += 1);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves one connection; `None` when it is over.
async fn serve<S>(mut socket: S, shared: &Shared) -> Option<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut received = Vec::new();
    loop {
        let request = read_request(&mut socket, &mut received).await?;
        shared.requests.lock().unwrap().push(request);
        let script = shared.scripts.lock().unwrap().pop_front()?;
        for step in script {
            match step {
                Step::Send(bytes) => {
                    socket.write_all(&bytes).await.ok()?;
                    socket.flush().await.ok()?;
                }
                Step::Close => {
                    socket.shutdown().await.ok()?;
                    return None;
                }
                Step::Hang => std::future::pending().await,
                Step::Await(count) => {
                    shared
                        .go
                        .clone()
                        .wait_for(|gone| *gone >= count)
                        .await
                        .ok()?;
                }
            }
        }
    }
}

async fn read_request<S: AsyncRead + Unpin>(
    socket: &mut S,
    received: &mut Vec<u8>,
) -> Option<Arrived> {
    let end = loop {
        if let Some(at) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break at;
        }
        if socket.read_buf(received).await.ok()? == 0 {
            return None;
        }
    };
    let mut request = Arrived {
        head: String::from_utf8_lossy(&received[..end]).into_owned(),
        body: Vec::new(),
    };
    let length: usize = match request.headers("content-length").first() {
        Some(length) => length.parse().ok()?,
        None => 0,
    };
    while received.len() < end + 4 + length {
        if socket.read_buf(received).await.ok()? == 0 {
            return None;
        }
    }
    request.body = received[end + 4..end + 4 + length].to_vec();
    received.drain(..end + 4 + length);
    Some(request)
}

/// Sends an answer with a `Content-Length`, and further header lines.
pub(crate) fn answer(status: &str, headers: &[&str], body: impl AsRef<[u8]>) -> Step {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n", body.len()).into_bytes();
    for header in headers {
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    Step::Send(bytes)
}

/// A 200 with JSON.
pub(crate) fn ok(json: &str) -> Step {
    answer(
        "200 OK",
        &["Content-Type: application/json", "X-Request-ID: req-1"],
        json,
    )
}

/// A problem by rule 8.
pub(crate) fn problem(status: &str, json: &str) -> Step {
    answer(
        status,
        &[
            "Content-Type: application/problem+json",
            "X-Request-ID: req-1",
        ],
        json,
    )
}

/// The head of an event stream that ends with its connection.
pub(crate) fn stream_head() -> Step {
    Step::Send(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Request-ID: req-s\r\n\r\n"
            .to_vec(),
    )
}

pub(crate) fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}
