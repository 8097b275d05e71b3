//! A proxy that carries connections by CONNECT.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

pub struct ConnectProxy {
    pub url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ConnectProxy {
    /// Whatever host it is asked for, it connects to this machine. It ends with the runtime.
    ///
    /// # Panics
    /// If it can't listen.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::default();
        let record = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, Arc::clone(&record)));
            }
        });
        Self { url, requests }
    }

    /// The head of each request, such as `CONNECT runs.example:443 HTTP/1.1` and its headers.
    ///
    /// # Panics
    /// If a tunnel did.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn carry(mut near: TcpStream, record: Arc<Mutex<Vec<String>>>) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(near.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    let target = head.strip_prefix("CONNECT ")?.split(' ').next()?;
    let (_, port) = target.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    record.lock().unwrap().push(head);
    let mut far = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
    copy_bidirectional(&mut near, &mut far).await.ok()?;
    Some(())
}
