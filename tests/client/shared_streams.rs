//! Many event streams over HTTP/2 on few connections.

use bytes::Bytes;
use futures::future::join_all;
use run_operator::api::contract::Contract;
use run_operator::decide::failure::Failure;
use run_operator::service::{Client, ClientConfig, EventStream};

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

/// Opens the streams of so many runs at once.
async fn open(client: &Client, runs: usize) -> Vec<Result<EventStream, Failure>> {
    let credentials = &credentials_of("dev");
    let one = async |number: usize| {
        let key = key(&format!("run-{number}"));
        let body = Bytes::from_static(ENDLESS);
        let run = client.create_run(credentials, &key, body).await.unwrap();
        let run_id = run_id(&run.run_id.unwrap());
        client.run_events(credentials, &run_id, None).await
    };
    within(join_all((0..runs).map(one))).await
}

async fn count(service: &Reference, what: &str) -> u64 {
    service.stats().await[what].as_u64().unwrap()
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
    assert_eq!(count(&service, "openConnections").await, 5);
    // A call doesn't wait behind them.
    within(client.version()).await.unwrap();
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
    assert_eq!(count(&service, "openConnections").await, 3);
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
    assert_eq!(count(&service, "openConnections").await, 5);
}
