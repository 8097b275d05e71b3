//! Connections shared by the Workspaces of one service.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use crate::util::{lock, sha256};

use super::http_client::{ClientConfig, ConfigError, HttpClients};

/// Origin, and the hash of the CA bundle.
type Service = (String, Option<String>);

/// The HTTP clients in use, one set for each origin and CA, however many Workspaces name them. A set that no Workspace
/// uses is closed. Holds no token: each [`Client`](super::Client) has its own list of tokens to remove from
/// answers.
#[derive(Default)]
pub struct HttpPool {
    clients: Mutex<HashMap<Service, Weak<HttpClients>>>,
}

impl HttpPool {
    /// Number of sets in use.
    pub fn in_use(&self) -> usize {
        let clients = lock(&self.clients);
        clients.values().filter(|c| c.strong_count() > 0).count()
    }

    /// The set for this origin and CA; made if there is none. `config.contract`, `config.user_agent` and
    /// `config.h2c` are the same for the whole process.
    pub(super) fn clients(&self, config: &ClientConfig) -> Result<Arc<HttpClients>, ConfigError> {
        let origin = config.base_url.origin().to_owned();
        let service = (origin, config.ca_pem.as_deref().map(sha256));
        let mut clients = lock(&self.clients);
        if let Some(known) = clients.get(&service).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let made = Arc::new(HttpClients::build(config)?);
        clients.retain(|_, known| known.strong_count() > 0);
        clients.insert(service, Arc::downgrade(&made));
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use crate::api::contract::Contract;
    use crate::service::{AllowList, BaseUrl, Client};

    use super::*;

    const CA: &str = include_str!("../../tests/client/tls/ca.pem");
    const OTHER_CA: &str = include_str!("../../tests/client/tls/other-ca.pem");

    fn client(pool: &HttpPool, url: &str) -> Client {
        client_with(pool, url, None)
    }

    fn client_with(pool: &HttpPool, url: &str, ca: Option<&str>) -> Client {
        // Another test of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let allowed = AllowList::parse([url], false).unwrap();
        let config = ClientConfig {
            base_url: BaseUrl::parse(url, &allowed).unwrap(),
            ca_pem: ca.map(|pem| pem.as_bytes().to_vec()),
            h2c: false,
            contract: Arc::new(Contract::builtin().unwrap()),
            user_agent: "test".to_owned(),
            observer: Arc::new(()),
        };
        Client::shared(config, pool).unwrap()
    }

    /// Proves: P-many-workspaces
    #[test]
    fn a_thousand_workspaces_of_one_service_share_its_connections() {
        let pool = HttpPool::default();
        let one: Vec<Client> = (0..1000)
            .map(|n| client(&pool, &format!("http://localhost:1/{n}/api/v1")))
            .collect();
        assert_eq!(pool.in_use(), 1);
        let other = client(&pool, "http://localhost:2/api/v1");
        assert_eq!(pool.in_use(), 2);
        drop(one);
        assert_eq!(pool.in_use(), 1, "closed with the last one");
        drop(other);
        assert_eq!(pool.in_use(), 0);
        let _next = client(&pool, "http://localhost:3/api/v1");
        assert_eq!(lock(&pool.clients).len(), 1, "those of the past are gone");
    }

    #[test]
    fn another_ca_has_connections_and_a_hash_of_its_own() {
        let pool = HttpPool::default();
        let url = "https://localhost:1/api/v1";
        let plain = client(&pool, url);
        let of_first = client_with(&pool, url, Some(CA));
        let of_second = client_with(&pool, url, Some(OTHER_CA));
        assert_eq!(pool.in_use(), 3);
        assert_eq!(plain.ca(), None);
        assert_eq!(of_first.ca(), Some(sha256(CA.as_bytes()).as_str()));
        assert_eq!(of_second.ca(), Some(sha256(OTHER_CA.as_bytes()).as_str()));
    }
}
