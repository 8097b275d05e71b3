//! `GET /version` for many Workspaces: concurrent requests at one base URL with one CA share one call. The answer is
//! public and the same for all (rule 3). A hanging service holds one call, not one per Workspace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};

use crate::decide::response::answer::Failure;
use crate::service::{Client, VersionReply};
use crate::util::lock;

use super::probe_slots::{ProbeSlots, VERSIONS};

/// Result of one call.
type Answer = Arc<Result<VersionReply, Failure>>;
type Call = Shared<BoxFuture<'static, Answer>>;
/// Base URL, and the hash of the CA bundle.
type Service = (String, Option<String>);

/// The calls in flight.
#[derive(Default)]
pub struct Versions {
    calls: Mutex<HashMap<Service, Call>>,
}

impl Versions {
    /// Gets the service's version, or waits for a call in flight. Tokens of this client are hidden in the answer,
    /// whichever client made the call.
    pub async fn ask(
        &self,
        client: &Client,
        slots: &Arc<ProbeSlots>,
    ) -> Result<VersionReply, Failure> {
        let service = (
            client.base_url().as_str().to_owned(),
            client.ca().map(str::to_owned),
        );
        let call = {
            let mut calls = lock(&self.calls);
            // A call that has ended serves no further request.
            calls.retain(|_, call| call.peek().is_none());
            let new = || begin(client, slots);
            calls.entry(service).or_insert_with(new).clone()
        };
        let answer = call.await;
        lock(&self.calls).retain(|_, call| call.peek().is_none());
        match &*answer {
            Ok(reply) => Ok(client.hidden_in_version(reply)),
            Err(failure) => Err(client.hidden_in_failure(failure)),
        }
    }
}

fn begin(client: &Client, slots: &Arc<ProbeSlots>) -> Call {
    let (client, slots) = (client.clone(), Arc::clone(slots));
    let asked = async move {
        let origin = client.base_url().origin().to_owned();
        let _slot = slots.enter(&origin, VERSIONS).await;
        let answer = client.version().await;
        Arc::new(answer.map_err(|error| Failure::from(&error)))
    };
    asked.boxed().shared()
}
