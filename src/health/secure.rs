//! The listener of `/metrics` over TLS, for scrapers that the API server knows and that may get it.
//!
//! # Guarantees
//! - Nothing but the port's existence is shown without a valid token.
//! - Connections, handshakes, requests and the questions to the API server are bounded in number, size and time.
//! - A token is neither logged nor kept beyond its request.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use hyper::body::Incoming;
use secrecy::SecretString;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use run_operator::controller::Probe;

use super::certificate::Certificates;
use super::reviews::{Reviews, Verdict};
use super::server::{
    Answer, ScrapePermit, Scrapes, accept, one_request, refused_method, text, try_again,
};

/// Connections at the same time. A few scrapers need one each.
const CONNECTIONS: usize = 32;
/// Time for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// All that the listener needs.
pub(crate) struct SecureMetrics {
    pub(crate) listener: TcpListener,
    pub(crate) certificates: Certificates,
    /// It has connections of its own: the reviews of scrapers must not wait for the controller's calls, nor those for
    /// them.
    pub(crate) client: kube::Client,
}

/// What the connections share.
struct Server {
    certificates: Certificates,
    reviews: Reviews,
    scrapes: Scrapes,
}

impl SecureMetrics {
    pub(super) fn port(&self) -> u16 {
        let address = self.listener.local_addr();
        address.map_or(0, |address| address.port())
    }

    /// Serves until shutdown, and follows changes of the certificate.
    pub(super) async fn serve(self, probe: Probe, shutdown: CancellationToken) {
        let server = Arc::new(Server {
            certificates: self.certificates,
            reviews: Reviews::new(self.client),
            scrapes: Scrapes::new(probe),
        });
        let serving = accept(self.listener, CONNECTIONS, shutdown, |stream| {
            let server = Arc::clone(&server);
            async move { server.connection(stream).await }
        });
        tokio::select! {
            () = serving => {}
            () = server.certificates.follow() => {}
        }
    }
}

impl Server {
    async fn connection(&self, stream: TcpStream) {
        let handshake = self.certificates.acceptor().accept(stream);
        let Ok(Ok(stream)) = timeout(HANDSHAKE, handshake).await else {
            tracing::trace!("a TLS handshake with the metrics server failed");
            return;
        };
        let permit = ScrapePermit::new();
        one_request(stream, |request| self.answer(request, &permit)).await;
    }

    async fn answer<'a>(
        &'a self,
        mut request: Request<Incoming>,
        permit: &ScrapePermit<'a>,
    ) -> Answer {
        let token = take_token(request.headers_mut());
        if let Some(refused) = refused_method(&request) {
            return refused;
        }
        if request.uri().path() != "/metrics" {
            return text(StatusCode::NOT_FOUND, "not found\n");
        }
        let Some(token) = token else {
            return unauthorized();
        };
        match self.reviews.verdict(&token).await {
            Some(Verdict::Allowed) => {
                drop(token);
                self.scrapes.serve(permit).await
            }
            Some(Verdict::Unauthenticated) => unauthorized(),
            Some(Verdict::Forbidden) => {
                let why = "the token's user may not get the path /metrics\n";
                text(StatusCode::FORBIDDEN, why)
            }
            None => try_again("the API server could not be asked about the token\n"),
        }
    }
}

/// Removes the request's Bearer token, if it has one.
fn take_token(headers: &mut HeaderMap) -> Option<SecretString> {
    let value = headers.remove(AUTHORIZATION)?;
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    let usable = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty();
    usable.then(|| SecretString::from(token))
}

fn unauthorized() -> Answer {
    let mut answer = text(
        StatusCode::UNAUTHORIZED,
        "a valid token of this cluster is needed: Authorization: Bearer TOKEN\n",
    );
    let scheme = HeaderValue::from_static("Bearer");
    answer.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    answer
}
