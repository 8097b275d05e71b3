//! Clients for the [`Server`] of bytes, and their arguments.
//!
//! To write a test: start a [`Server`] with one list of [`Step`]s for each request that it will get, make a
//! [`client`] for it, call, and check [`Server::requests`].

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use run_operator::api::contract::Contract;
use run_operator::decide::failure::{Failure, FailureKind, RunView};
use run_operator::service::{
    AllowList, BaseUrl, Client, ClientConfig, Credentials, EventStream, IdempotencyKey, Observer,
    Operation, RunId, Token, WorkspaceId,
};

pub(crate) use crate::server::*;

/// The token of every test in this suite; it must be found nowhere but on the wire.
pub(crate) const TOKEN: &str = "canary.7f3a-token";
/// No wait in this suite is longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The contract that is compiled in, with these texts of it replaced.
pub(crate) fn contract_with(changes: &[(&str, &str)]) -> Contract {
    let mut yaml = include_str!("../../contract/profile.yaml").to_owned();
    for (from, to) in changes {
        assert!(yaml.contains(from), "the profile has no {from}");
        yaml = yaml.replace(from, to);
    }
    Contract::parse(&yaml).unwrap()
}

/// The same, with timeouts that a test can sit out.
pub(crate) fn impatient() -> Contract {
    contract_with(&[
        ("connectSeconds: 5", "connectSeconds: 1"),
        ("requestSeconds: 30", "requestSeconds: 1"),
        ("streamIdleSeconds: 90", "streamIdleSeconds: 1"),
    ])
}

/// Installs what main installs.
pub(crate) fn install_tls_provider() {
    // An error means that it was installed before.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

pub(crate) fn config(base_url: &str, contract: Contract) -> ClientConfig {
    install_tls_provider();
    let allowed = AllowList::parse([base_url], false).unwrap();
    ClientConfig {
        base_url: BaseUrl::parse(base_url, &allowed).unwrap(),
        ca_pem: None,
        h2c: false,
        proxy: None,
        contract: Arc::new(contract),
        user_agent: "run-operator/test".to_owned(),
        observer: Arc::new(()),
    }
}

/// A client for a server, by the contract that is compiled in.
pub(crate) fn client(server: &Server) -> Client {
    client_with(server, Contract::builtin().unwrap())
}

pub(crate) fn client_with(server: &Server, contract: Contract) -> Client {
    Client::new(config(&server.base_url(), contract)).unwrap()
}

pub(crate) fn credentials() -> Credentials {
    credentials_of(TOKEN)
}

pub(crate) fn credentials_of(token: &str) -> Credentials {
    Credentials {
        token: Token::parse(token.as_bytes(), &Contract::builtin().unwrap()).unwrap(),
        workspace_id: None,
    }
}

pub(crate) fn credentials_for(workspace: &str) -> Credentials {
    Credentials {
        workspace_id: Some(WorkspaceId::parse(workspace).unwrap()),
        ..credentials()
    }
}

pub(crate) fn run_id(text: &str) -> RunId {
    RunId::parse(text).unwrap()
}

pub(crate) fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).unwrap()
}

/// Bounds a wait: a test that would hang fails instead.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("it took longer than any test may")
}

/// Makes one `POST /runs`.
pub(crate) async fn create(client: &Client) -> Result<RunView, Failure> {
    let body = Bytes::from_static(b"{}");
    within(client.create_run(&credentials(), &key("k"), body)).await
}

/// Makes one `GET /runs/run-1`.
pub(crate) async fn get(client: &Client) -> Result<RunView, Failure> {
    within(client.get_run(&credentials(), &run_id("run-1"))).await
}

/// Makes one `GET /runs/run-1` and returns how it failed.
pub(crate) async fn get_failure(client: &Client) -> Failure {
    get(client).await.expect_err("the call should have failed")
}

/// Makes one `POST /runs/run-1:cancel`.
pub(crate) async fn cancel(client: &Client) -> Result<RunView, Failure> {
    within(client.cancel_run(&credentials(), &run_id("run-1"))).await
}

/// Opens the event stream of `run-1`, from behind this event.
pub(crate) async fn events(client: &Client, last: Option<&str>) -> Result<EventStream, Failure> {
    within(client.run_events(&credentials(), &run_id("run-1"), last)).await
}

/// Asserts that a call got no answer, and how.
pub(crate) fn no_answer(failure: &Failure, how: &str) {
    assert_eq!(failure.kind, FailureKind::NoAnswer, "{failure:?}");
    assert!(failure.message.starts_with(how), "{failure:?}");
}

/// How a call fails without a connection, and with one that brings no answer.
pub(crate) const NO_CONNECTION: &str = "failed to connect to the service";
pub(crate) const NO_HEAD: &str = "failed to get an answer from the service";

/// What is wrong with an answer that could not be read.
pub(crate) fn unreadable<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
    match result {
        Err(failure) if failure.kind == FailureKind::Unreadable => failure.message,
        other => panic!("{other:?}"),
    }
}

/// Records the operation and the status of each call.
#[derive(Default)]
pub(crate) struct Told(pub(crate) Mutex<Vec<String>>);

impl Observer for Told {
    fn ended(&self, operation: Operation, http_status: Option<u16>, _: Duration) {
        let told = format!("{operation:?} {http_status:?}");
        self.0.lock().unwrap().push(told);
    }
}

/// An environment belongs to a process: runs the named test again in a process of its own that has these
/// variables. True in that process; the caller continues only there.
pub(crate) fn is_child_with(test: &str, variables: &[(&str, &str)]) -> bool {
    const MARK: &str = "RUN_OPERATOR_TEST_CHILD";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(MARK, "1")
        .envs(variables.iter().copied())
        .status()
        .unwrap();
    assert!(status.success(), "{test} failed in its own process");
    false
}
