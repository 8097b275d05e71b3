//! The listener of `/metrics` over TLS, for scrapers that the API server knows and that may get it.
//!
//! # Guarantees
//! - Nothing but the port's existence is shown without a valid token.
//! - Connections, handshakes, requests and the questions to the API server are bounded in number, size and time.
//! - A token is neither logged nor kept beyond its request.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use secrecy::SecretString;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use run_operator::controller::Probe;

use super::answer::{not_found, refused_method, text, try_again};
use super::certificate::{CertificateError, Certificates};
use super::connection::{accept, one_request};
use super::reviews::Reviews;
use super::scrape::{ScrapePermit, Scrapes};
use super::verdicts::Verdict;

/// Connections at the same time. A few scrapers need one each.
const CONNECTIONS: usize = 32;
/// Time for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// All that the listener needs.
pub(crate) struct SecureMetrics {
    listener: std::net::TcpListener,
    port: u16,
    certificates: Arc<Certificates>,
    tls: Arc<rustls::ServerConfig>,
    reviews: Reviews,
}

impl SecureMetrics {
    /// `client` has connections of its own: the reviews of scrapers must not wait
    /// for the controller's calls, nor those for them.
    pub(crate) fn new(
        listener: std::net::TcpListener,
        certificates: Certificates,
        client: kube::Client,
    ) -> Result<Self, CertificateError> {
        let port = listener.local_addr().map_or(0, |address| address.port());
        let certificates = Arc::new(certificates);
        let tls = Arc::new(certificates.server_config()?);
        Ok(Self {
            listener,
            port,
            certificates,
            tls,
            reviews: Reviews::new(client),
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

/// State that the connections share.
struct Server {
    tls: TlsAcceptor,
    reviews: Reviews,
    scrapes: Scrapes,
}

/// Serves until shutdown, and follows changes of the certificate.
pub(super) async fn serve(secure: SecureMetrics, probe: Probe, shutdown: CancellationToken) {
    let server = Arc::new(Server {
        tls: TlsAcceptor::from(secure.tls),
        reviews: secure.reviews,
        scrapes: Scrapes::new(probe),
    });
    let certificates = secure.certificates;
    tokio::spawn(async move { certificates.follow().await });
    accept(secure.listener, CONNECTIONS, shutdown, |stream| {
        let server = Arc::clone(&server);
        async move { server.connection(stream).await }
    })
    .await;
}

impl Server {
    async fn connection(&self, stream: TcpStream) {
        let Ok(Ok(stream)) = timeout(HANDSHAKE, self.tls.accept(stream)).await else {
            tracing::trace!("a TLS handshake with the metrics server failed");
            return;
        };
        let permit = ScrapePermit::default();
        let answer = |request| {
            let permit = Arc::clone(&permit);
            async move { self.answer(request, &permit).await }
        };
        one_request(stream, answer).await;
    }

    async fn answer(
        &self,
        mut request: Request<Incoming>,
        scrape_permit: &ScrapePermit,
    ) -> Response<Body> {
        let token = take_token(request.headers_mut());
        if let Some(refused) = refused_method(&request) {
            return refused;
        }
        if request.uri().path() != "/metrics" {
            return not_found();
        }
        let Some(token) = token else {
            return unauthorized();
        };
        match self.reviews.verdict(&token).await {
            Some(Verdict::Allowed) => {
                drop(token);
                self.scrapes.serve(request.headers(), scrape_permit).await
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

fn unauthorized() -> Response<Body> {
    let mut answer = text(
        StatusCode::UNAUTHORIZED,
        "a valid token of this cluster is needed: Authorization: Bearer TOKEN\n",
    );
    let scheme = HeaderValue::from_static("Bearer");
    answer.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    answer
}
