//! `GET /version` for many Workspaces: those that ask at the same time, at one base URL with one CA, share the
//! answer. It is public and the same for all (rule 3), and a service that hangs holds one call, not one for each
//! Workspace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};

use crate::decide::answer::Failure;
use crate::service::{Client, VersionReply};

use super::{check_places::CheckPlaces, context::lock};

/// What one call came to.
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
    /// Asks for the service's version, or waits for the answer to a call in flight. What the answer says is
    /// searched for the tokens of this client, whoever asked.
    pub async fn ask(
        &self,
        client: &Client,
        places: &Arc<CheckPlaces>,
        namespace: &str,
    ) -> Result<VersionReply, Failure> {
        let service = (
            client.base_url().as_str().to_owned(),
            client.ca().map(str::to_owned),
        );
        let call = {
            let mut calls = lock(&self.calls);
            // One that has ended answers nobody any more.
            calls.retain(|_, call| call.peek().is_none());
            let new = || begin(client, places, namespace);
            calls.entry(service.clone()).or_insert_with(new).clone()
        };
        let answer = call.await;
        lock(&self.calls).retain(|_, call| call.peek().is_none());
        match &*answer {
            Ok(reply) => Ok(client.hidden_in_version(reply)),
            Err(failure) => Err(client.hidden_in_failure(failure)),
        }
    }
}

fn begin(client: &Client, places: &Arc<CheckPlaces>, namespace: &str) -> Call {
    let (client, places) = (client.clone(), Arc::clone(places));
    let namespace = namespace.to_owned();
    let asked = async move {
        let origin = client.base_url().origin().to_owned();
        let _place = places.enter(&origin, &namespace).await;
        let answer = client.version().await;
        Arc::new(answer.map_err(|error| Failure::from(&error)))
    };
    asked.boxed().shared()
}
