//! `GET /version` for many Workspaces: concurrent requests at one base URL with one CA share one call. The answer is
//! public and the same for all (rule 3). A hanging service holds one call, not one per Workspace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};

use crate::decide::failure::Failure;
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
        Arc::new(client.version().await)
    };
    asked.boxed().shared()
}

#[cfg(test)]
mod tests {
    use crate::controller::state::fixtures::client;

    use super::*;

    /// Proves: P-many-workspaces
    #[tokio::test]
    async fn workspaces_that_ask_at_the_same_time_share_one_call() {
        let (versions, slots) = (Versions::default(), Arc::new(ProbeSlots::default()));
        let (one, other) = (client(), client());
        let origin = one.base_url().origin();
        // Each call waits until they are given back.
        let mut taken = Vec::new();
        while let Some(slot) = slots.enter(origin, "team").now_or_never() {
            taken.push(slot);
        }
        let mut first = Box::pin(versions.ask(&one, &slots));
        assert!(futures::poll!(&mut first).is_pending());
        let call = lock(&versions.calls).values().next().cloned().unwrap();
        let mut second = Box::pin(versions.ask(&other, &slots));
        assert!(futures::poll!(&mut second).is_pending());
        let same = |now: &Call| now.ptr_eq(&call);
        assert!(lock(&versions.calls).values().all(same), "a second call");
        drop(taken);
        let (first, second) = tokio::join!(first, second);
        assert!(first.is_err() && first == second);
        let calls = lock(&versions.calls).len();
        assert_eq!(calls, 0, "it serves no later request");
    }
}
