//! Objects that several tests of this layer use.

use std::sync::Arc;

use crate::api::{Contract, WorkspaceKey, workspace_ref::WorkspaceKind};
use crate::service::{AllowList, BaseUrl, Client, ClientConfig};

/// Base URL of [`client`].
pub(crate) const URL: &str = "http://localhost:1/api/v1";

/// The Workspace `default` of this namespace.
pub(crate) fn key_in(namespace: &str) -> WorkspaceKey {
    WorkspaceKey {
        kind: WorkspaceKind::Workspace,
        namespace: namespace.to_owned(),
        name: "default".to_owned(),
    }
}

/// The Workspace of most tests.
pub(crate) fn key() -> WorkspaceKey {
    key_in("team")
}

/// A client that makes no call.
pub(crate) fn client() -> Client {
    // Another test of this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let allowed = AllowList::parse([URL], false).unwrap();
    let config = ClientConfig {
        base_url: BaseUrl::parse(URL, &allowed).unwrap(),
        ca_pem: None,
        h2c: false,
        contract: Arc::new(Contract::builtin().unwrap()),
        user_agent: "test".to_owned(),
        observer: Arc::new(()),
    };
    Client::new(config).unwrap()
}
