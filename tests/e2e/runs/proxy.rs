//! Proxies to the API server, as kubectl uses them.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use test_support::programs;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::desk;

/// A proxy, by its URL, and the number of its tunnels.
async fn proxy() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let tunnels = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tunnels);
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Relaxed);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(near.read_u8().await.unwrap());
                }
                // CONNECT HOST:PORT HTTP/1.1
                let head = String::from_utf8(head).unwrap();
                let target = head.split(' ').nth(1).unwrap();
                let mut far = TcpStream::connect(target).await.unwrap();
                near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                let _ = copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (url, tunnels)
}

/// Proves: K-plugin
#[tokio::test]
async fn the_proxy_of_the_environment_is_used_unless_no_proxy_covers_the_api_server() {
    let world = desk().await;
    let (url, tunnels) = proxy().await;
    let list = async |variables: &[(&str, &str)]| {
        let mut list = Command::new(programs::kubectl_runop());
        list.args(["list", "-o", "name", "-n", &world.namespace])
            .env("KUBECONFIG", world.control_plane.kubeconfig())
            .envs(variables.iter().copied());
        crate::support::output_of(list, "").await
    };
    list(&[("HTTPS_PROXY", url.as_str())]).await.unwrap();
    assert_eq!(tunnels.load(Relaxed), 1);
    let exempt = [("HTTPS_PROXY", url.as_str()), ("NO_PROXY", "127.0.0.0/8")];
    list(&exempt).await.unwrap();
    assert_eq!(tunnels.load(Relaxed), 1);
    let refused = list(&[("https_proxy", "http://127.0.0.1:9")]).await;
    let error = refused.unwrap_err();
    assert!(error.contains("the API server gave no answer"), "{error}");
}
