//! Certification authorities of the service.

use std::sync::Arc;

use rstest::rstest;
use run_operator::api::contract::Contract;
use run_operator::service::{Client, ClientConfig, ConfigError};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use crate::support::*;

/// Two authorities that have nothing to do with each other; the first one issued the server's
/// certificate for 127.0.0.1. `tls/make` made all of them.
pub(crate) const CA: &[u8] = include_bytes!("tls/ca.pem");
const OTHER_CA: &[u8] = include_bytes!("tls/other-ca.pem");
const CERTIFICATE: &[u8] = include_bytes!("tls/server.pem");
const KEY: &[u8] = include_bytes!("tls/server.key");
/// An authority of its own, and its certificate for 127.0.0.1 that was good for one day in 2020.
const EXPIRED_CA: &[u8] = include_bytes!("tls/expired-ca.pem");
const EXPIRED: &[u8] = include_bytes!("tls/expired.pem");
const EXPIRED_KEY: &[u8] = include_bytes!("tls/expired.key");

pub(crate) async fn server(scripts: Vec<Vec<Step>>) -> Server {
    let config = server_config(CERTIFICATE, KEY, rustls::DEFAULT_VERSIONS);
    server_of(config, scripts).await
}

async fn server_of(config: rustls::ServerConfig, scripts: Vec<Vec<Step>>) -> Server {
    Server::start_with(scripts, Some(TlsAcceptor::from(Arc::new(config)))).await
}

fn server_config(
    certificate: &[u8],
    key: &[u8],
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> rustls::ServerConfig {
    install_tls_provider();
    let certificate = CertificateDer::from_pem_slice(certificate).unwrap();
    let key = PrivateKeyDer::from_pem_slice(key).unwrap();
    rustls::ServerConfig::builder_with_protocol_versions(versions)
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap()
}

/// A client for this host and port that trusts these authorities.
fn https(host: &str, port: u16, ca: &[u8]) -> ClientConfig {
    ClientConfig {
        ca_pem: Some(ca.to_vec()),
        ..by_system(host, port)
    }
}

/// The same, which names no bundle.
fn by_system(host: &str, port: u16) -> ClientConfig {
    let base_url = format!("https://{host}:{port}/api/v1");
    config(&base_url, Contract::builtin().unwrap())
}

#[tokio::test]
async fn a_bundle_may_hold_several_authorities() {
    let server = server(vec![vec![ok("{}")]]).await;
    let bundle = [OTHER_CA, CA].concat();
    let client = Client::new(https("127.0.0.1", server.port, &bundle)).unwrap();
    within(client.version()).await.unwrap();
}

/// This client connects to no such server, and its token stays here.
async fn not_trusted(server: &Server, config: ClientConfig, why: &str) {
    let failure = get_failure(&Client::new(config).unwrap()).await;
    no_answer(&failure, NO_CONNECTION);
    assert!(failure.message.contains(why), "{failure:?}");
    assert!(server.requests().is_empty());
}

/// Proves: X-allow-list
#[rstest]
#[case::of_another_authority((CERTIFICATE, KEY), "127.0.0.1", OTHER_CA, "UnknownIssuer")]
#[case::for_another_name((CERTIFICATE, KEY), "localhost", CA, "not valid for name")]
#[case::expired((EXPIRED, EXPIRED_KEY), "127.0.0.1", EXPIRED_CA, "expired")]
#[tokio::test]
async fn a_certificate_that_proves_nothing_is_refused_before_the_token(
    #[case] (certificate, key): (&[u8], &[u8]),
    #[case] host: &str,
    #[case] ca: &[u8],
    #[case] why: &str,
) {
    let config = server_config(certificate, key, rustls::DEFAULT_VERSIONS);
    let server = server_of(config, vec![]).await;
    not_trusted(&server, https(host, server.port, ca), why).await;
}

/// Proves: X-allow-list
#[rstest]
#[case::tls_1_2(&rustls::version::TLS12)]
#[case::tls_1_3(&rustls::version::TLS13)]
#[tokio::test]
async fn a_server_that_speaks_one_version_alone_is_called(
    #[case] version: &'static rustls::SupportedProtocolVersion,
) {
    let config = server_config(CERTIFICATE, KEY, &[version]);
    let server = server_of(config, vec![vec![ok("{}")]]).await;
    let client = Client::new(https("127.0.0.1", server.port, CA)).unwrap();
    within(client.version()).await.unwrap();
}

/// The answer of a server that speaks TLS 1.1 and nothing newer.
/// Proves: X-allow-list
#[tokio::test]
async fn tls_before_1_2_is_not_spoken_and_no_token_is_sent() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut hello = [0; 5];
        socket.read_exact(&mut hello).await.unwrap();
        // ServerHello: version 3.2, a random number, no session, ECDHE with AES and SHA, no compression.
        let body = [&[3, 2][..], &[7; 32], &[0, 0xc0, 0x14, 0]].concat();
        let length = u8::try_from(body.len()).unwrap();
        let record = [&[0x16, 3, 2, 0, length + 4, 2, 0, 0, length][..], &body].concat();
        socket.write_all(&record).await.unwrap();
        let mut rest = Vec::new();
        // A reset is as good an end as any.
        let _ = socket.read_to_end(&mut rest).await;
        rest
    });
    let client = Client::new(https("127.0.0.1", port, CA)).unwrap();
    no_answer(&get_failure(&client).await, NO_CONNECTION);
    let rest = within(heard).await.unwrap();
    assert!(!String::from_utf8_lossy(&rest).contains("Bearer"));
}

#[test]
fn a_ca_that_is_no_certificate_is_refused_at_once() {
    let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (pem, empty) in [(&b""[..], true), (b"no PEM", true), (broken, false)] {
        let error = Client::new(https("127.0.0.1", 1, pem)).err().unwrap();
        match error {
            ConfigError::EmptyCa => assert!(empty),
            ConfigError::ReadCa(_) | ConfigError::BuildClient(_) => assert!(!empty),
            other => panic!("{other:?}"),
        }
    }
}

/// The first lines of what a call and an event stream send to a server that offers these protocols, the best first.
async fn first_lines(alpn: &[&str], stream: Vec<Step>) -> Vec<String> {
    let mut config = server_config(CERTIFICATE, KEY, rustls::DEFAULT_VERSIONS);
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let server = server_of(config, vec![vec![Step::Close], stream]).await;
    let client = Client::new(https("127.0.0.1", server.port, CA)).unwrap();
    get_failure(&client).await;
    let opened = events(&client, None).await;
    let lines = server.requests().into_iter();
    let lines = lines.map(|request| request.line().to_owned()).collect();
    drop(opened);
    lines
}

/// Proves: P-files
#[tokio::test]
async fn http_2_is_used_if_offered_by_streams_apart_from_calls() {
    // What every HTTP/2 connection begins with; the server of these tests can't answer it.
    let lines = first_lines(&["h2", "http/1.1"], vec![Step::Close]).await;
    assert_eq!(lines, ["PRI * HTTP/2.0", "PRI * HTTP/2.0"]);
    let stream = vec![stream_head(), Step::Hang];
    let lines = first_lines(&["http/1.1"], stream).await;
    let expected = [
        "GET /api/v1/runs/run-1 HTTP/1.1",
        "GET /api/v1/runs/run-1/events HTTP/1.1",
    ];
    assert_eq!(lines, expected);
}

/// Whether this is the named test's process in which the system trusts only the authority of this file.
fn is_child_trusting(test: &str, file: &str) -> bool {
    let file = format!("{}/tests/client/tls/{file}", env!("CARGO_MANIFEST_DIR"));
    let folder = ("SSL_CERT_DIR", "/nonexistent/folder");
    is_child_with(test, &[("SSL_CERT_FILE", file.as_str()), folder])
}

/// Proves: X-allow-list
#[tokio::test]
async fn without_a_bundle_the_system_s_authorities_are_trusted() {
    let test = "tls::without_a_bundle_the_system_s_authorities_are_trusted";
    if !is_child_trusting(test, "ca.pem") {
        return;
    }
    let server = server(vec![vec![ok("{}")]]).await;
    let client = Client::new(by_system("127.0.0.1", server.port)).unwrap();
    within(client.version()).await.unwrap();
}

/// Proves: X-allow-list
#[tokio::test]
async fn without_a_bundle_no_other_authority_is_trusted() {
    let test = "tls::without_a_bundle_no_other_authority_is_trusted";
    if !is_child_trusting(test, "other-ca.pem") {
        return;
    }
    let server = server(vec![]).await;
    let config = by_system("127.0.0.1", server.port);
    not_trusted(&server, config, "UnknownIssuer").await;
}

#[test]
fn without_system_certificates_only_https_without_a_ca_fails() {
    let test = "tls::without_system_certificates_only_https_without_a_ca_fails";
    if !is_child_trusting(test, "nothing.pem") {
        return;
    }
    let error = Client::new(by_system("127.0.0.1", 1)).err().unwrap();
    assert!(matches!(error, ConfigError::NoSystemRoots), "{error:?}");
    assert!(error.to_string().contains("configure the service's CA"));
    Client::new(https("127.0.0.1", 1, CA)).unwrap();
    let plain = config("http://127.0.0.1:1", Contract::builtin().unwrap());
    Client::new(plain).unwrap();
}
