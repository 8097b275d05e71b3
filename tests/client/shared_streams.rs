//! Many event streams over HTTP/2 on few connections.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use run_operator::api::contract::Contract;
use run_operator::decide::failure::Failure;
use run_operator::service::{Client, ClientConfig, EventStream, ServiceProxy};
use test_support::connect_proxy::ConnectProxy;

use crate::reference_service::Reference;
use crate::support::*;
use crate::tls::CA;

/// A run that never ends.
const ENDLESS: &[u8] =
    br#"{"provider":"p","region":"r","workload":{"image":"a","simulate":{"outcome":"never"}}}"#;

fn client_of(service: &Reference, contract: Contract) -> Client {
    Client::new(ClientConfig {
        ca_pem: Some(CA.to_vec()),
        ..config(&service.base_url(), contract)
    })
    .unwrap()
}

/// Opens the streams of so many runs at once. The runs are made one after the other: a service may refuse what is sent on a
/// connection before its limit is known.
async fn open(client: &Client, runs: usize) -> Vec<Result<EventStream, Failure>> {
    let credentials = &credentials_of("dev");
    let mut run_ids = Vec::new();
    for number in 0..runs {
        let key = key(&format!("run-{number}"));
        let body = Bytes::from_static(ENDLESS);
        let run = within(client.create_run(credentials, &key, body)).await;
        run_ids.push(run_id(&run.unwrap().run_id.unwrap()));
    }
    let streams = run_ids
        .iter()
        .map(|run_id| client.run_events(credentials, run_id, None));
    within(join_all(streams)).await
}

async fn count(service: &Reference, what: &str) -> u64 {
    service.stats().await[what].as_u64().unwrap()
}

/// Calls of one moment may each begin a connection before the first is known to be HTTP/2; the others are closed again.
async fn connections_become(service: &Reference, expected: u64) {
    let becomes = async {
        while count(service, "openConnections").await != expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(becomes).await;
}

/// Proves: P-files
#[tokio::test]
async fn event_streams_over_http2_share_connections() {
    let service = Reference::start_with_tls(&[]).await;
    let client = client_of(&service, Contract::builtin().unwrap());
    let streams = open(&client, 250).await;
    assert!(streams.iter().all(Result::is_ok));
    assert_eq!(count(&service, "openStreams").await, 250);
    // Three for the streams, one for the calls, one of this test.
    connections_become(&service, 5).await;
    // A call doesn't wait behind them.
    within(client.version()).await.unwrap();
}

/// Proves: P-files, P-service-proxy
#[tokio::test]
async fn event_streams_over_http2_share_a_tunnel() {
    let service = Reference::start_with_tls(&[]).await;
    let proxy = ConnectProxy::start().await;
    let client = Client::new(ClientConfig {
        ca_pem: Some(CA.to_vec()),
        proxy: ServiceProxy::from_flag(Some(&proxy.url)).unwrap(),
        ..config(&service.base_url(), Contract::builtin().unwrap())
    })
    .unwrap();
    let streams = open(&client, 50).await;
    assert!(streams.iter().all(Result::is_ok));
    assert_eq!(count(&service, "openStreams").await, 50);
    // One for the streams, one for the calls, one of this test.
    connections_become(&service, 3).await;
    assert!(proxy.requests().len() >= 2);
}

/// Proves: P-files
#[tokio::test]
async fn with_h2c_streams_by_plain_http_share_a_connection() {
    let service = Reference::start(&[]).await;
    let client = Client::new(ClientConfig {
        h2c: true,
        ..config(&service.base_url(), Contract::builtin().unwrap())
    })
    .unwrap();
    let streams = open(&client, 50).await;
    assert!(streams.iter().all(Result::is_ok));
    assert_eq!(count(&service, "openStreams").await, 50);
    // One for the streams, one for the calls, one of this test.
    connections_become(&service, 3).await;
}

/// Proves: P-files
#[tokio::test]
async fn a_service_that_allows_fewer_streams_gets_as_many_as_the_contract_says() {
    let service = Reference::start_with_tls(&["--http2-streams", "20"]).await;
    let few = contract_with(&[("streamsPerConnection: 100", "streamsPerConnection: 20")]);
    let client = client_of(&service, few);
    let streams = open(&client, 60).await;
    assert!(streams.iter().all(Result::is_ok));
    assert_eq!(count(&service, "openStreams").await, 60);
    // Three for the streams, one for the calls, one of this test.
    connections_become(&service, 5).await;
}
