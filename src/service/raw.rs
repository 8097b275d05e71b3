//! Two requests without a token, and their unprocessed answers: for checks of the service instead of a Run.

use bytes::Bytes;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::contract::Contract;

use super::request::Request;
use super::{BaseUrl, CallError, Client, Operation};
use super::{answer::version_in, text::lossy};

/// An answer to a request that carried no token, whatever its status. Bounded by the contract file's `bodyBytes`; its
/// texts are not made fit to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawAnswer {
    /// Its status.
    pub status: u16,
    /// The `Content-Type` without its parameters, in lower case.
    pub media_type: Option<String>,
    /// Its `X-Request-ID`, if it can be shown (rule 11).
    pub request_id: Option<String>,
    /// Its body; `None` if it is larger than the contract file's `bodyBytes`.
    pub body: Option<Bytes>,
}

impl RawAnswer {
    /// Whether it is a success.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body as JSON, read like every other answer; `None` if it is none, or too large.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_str(&lossy(self.body.as_ref()?)).ok()
    }

    /// The version that a `/version` document names, as [`Client::version`](super::Client::version) would return it.
    pub fn version(document: &Value, contract: &Contract) -> Option<String> {
        let document = serde_json::value::to_raw_value(document).ok()?;
        version_in(&document, contract)
    }
}

impl Client {
    /// `GET /version` as sent by [`Client::version`], with the unprocessed answer.
    pub async fn raw_version(&self) -> Result<RawAnswer, CallError> {
        self.raw(Operation::Version, Request::version).await
    }

    /// `GET /workspaces/current` without a token, which the service must refuse (rule 3).
    pub async fn current_workspace_without_token(&self) -> Result<RawAnswer, CallError> {
        self.raw(
            Operation::CurrentWorkspace,
            Request::workspace_without_token,
        )
        .await
    }

    /// Sends a request and reads the answer, whatever its status.
    async fn raw(
        &self,
        operation: Operation,
        request: fn(&BaseUrl) -> Result<Request, CallError>,
    ) -> Result<RawAnswer, CallError> {
        let started = Instant::now();
        let result = async {
            let (http, limit) = (&self.inner.http.checks, self.limit());
            let request = request(self.base_url())?;
            let (head, mut response) = self.send(http, request, limit).await?;
            let bytes = self.inner.contract.limits().body_bytes;
            let body = self.body(&head, &mut response, bytes, limit).await?;
            let answer = RawAnswer {
                status: head.status.as_u16(),
                media_type: head.media_type,
                request_id: head.request_id,
                body,
            };
            Ok((head.status, answer))
        }
        .await;
        self.observe(operation, started, result)
    }
}
