//! A proxy to the service.

use run_operator::api::contract::Contract;
use run_operator::service::{Client, ClientConfig, ServiceProxy};
use test_support::connect_proxy::ConnectProxy;

use crate::support::*;
use crate::tls;

/// A client that was given this proxy, for an address of this machine.
fn client_through(proxy: &str, base_url: &str) -> Client {
    Client::new(ClientConfig {
        ca_pem: Some(tls::CA.to_vec()),
        proxy: ServiceProxy::from_flag(Some(proxy)).unwrap(),
        ..config(base_url, Contract::builtin().unwrap())
    })
    .unwrap()
}

/// Proves: P-service-proxy
#[tokio::test]
async fn calls_and_streams_of_an_https_service_go_through_its_proxy_in_tunnels() {
    let stream = vec![stream_head(), send("id: 1\ndata: a\n\n"), Step::Hang];
    let server = tls::server(vec![vec![ok(r#"{"runId":"run-1"}"#)], stream]).await;
    let proxy = ConnectProxy::start().await;
    let base_url = format!("https://127.0.0.1:{}/api/v1", server.port);
    let client = client_through(&proxy.url, &base_url);
    get(&client).await.unwrap();
    let mut stream = events(&client, None).await.unwrap();
    assert!(within(stream.next()).await.unwrap().is_some());
    assert_eq!(
        server.requests()[0].line(),
        "GET /api/v1/runs/run-1 HTTP/1.1"
    );
    let requests = proxy.requests();
    let tunnel = format!("CONNECT 127.0.0.1:{} HTTP/1.1", server.port);
    assert_eq!(requests.len(), 2, "{requests:?}");
    for head in requests {
        assert_eq!(head.lines().next(), Some(tunnel.as_str()));
        assert!(!head.to_lowercase().contains("authorization"), "{head}");
    }
}

/// Proves: P-service-proxy
#[tokio::test]
async fn a_service_by_plain_http_is_called_without_the_proxy() {
    let server = Server::start([vec![ok("{}")]]).await;
    let proxy = ConnectProxy::start().await;
    let client = client_through(&proxy.url, &server.base_url());
    within(client.version()).await.unwrap();
    assert!(proxy.requests().is_empty());
}

/// Proves: P-service-proxy
#[tokio::test]
async fn a_proxy_that_refuses_is_no_answer_of_the_service() {
    let denied = answer("403 Forbidden", &[], "no");
    let proxy = Server::start([vec![denied]]).await;
    let address = format!("http://127.0.0.1:{}", proxy.port);
    let client = client_through(&address, "https://runs.example/api/v1");
    no_answer(&get_failure(&client).await, NO_CONNECTION);
    assert_eq!(proxy.request().line(), "CONNECT runs.example:443 HTTP/1.1");
}
