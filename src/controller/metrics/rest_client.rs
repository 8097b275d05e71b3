//! Requests to the API server, by code, method and host.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{
    catalogue::{REST_REQUESTS, REST_SECONDS},
    family::Family,
};

pub(crate) struct Families {
    pub(crate) requests: Family<Counter>,
    pub(crate) durations: Family<Histogram>,
}

impl Families {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        Self {
            requests: Family::new(registry, &REST_REQUESTS),
            durations: Family::new(registry, &REST_SECONDS),
        }
    }

    /// Number of requests with this answer.
    #[cfg(test)]
    pub(crate) fn count(&self, code: &str, method: &str, host: &str) -> u64 {
        self.requests.of(&[code, method, host]).get()
    }
}
