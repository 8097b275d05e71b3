//! The listener of `/metrics` over TLS, for scrapers that the API server knows (`TokenReview`) and that may get it
//! (`SubjectAccessReview`): two requests for each in ten seconds at most. Without a valid token only the port is seen.
//! Connections, handshakes, requests and reviews are bounded in number, size and time. No token is logged or kept.

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use hyper::body::Incoming;
use k8s_openapi::api::authentication::v1::{TokenReview, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use run_operator::controller::Probe;
use run_operator::util::{error_chain, lock};

use super::certificate::Certificates;
use super::server::{Answer, ScrapePermit, Scrapes, accept, one_request, text, try_again};

const FORBIDDEN: &str = "the token's user may not get the path /metrics\n";
const UNAUTHORIZED: &str = "a valid token of this cluster is needed: Authorization: Bearer TOKEN\n";

/// Connections at the same time. A few scrapers need one each.
const CONNECTIONS: usize = 32;
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Time for both reviews of a token, the wait for other tokens' reviews included.
const REVIEW: Duration = Duration::from_secs(5);
/// Age at which a result is no longer used: a permission that is taken away ends after this time.
const MAX_AGE: Duration = Duration::from_secs(10);

pub(crate) struct SecureMetrics {
    pub(crate) listener: TcpListener,
    pub(crate) certificates: Arc<Certificates>,
    /// With connections of its own: the reviews and the controller's calls must not wait for each other.
    pub(crate) client: kube::Client,
}

struct Server {
    certificates: Arc<Certificates>,
    reviews: Reviews,
    scrapes: Scrapes,
}

impl SecureMetrics {
    pub(super) fn port(&self) -> u16 {
        let address = self.listener.local_addr();
        address.map_or(0, |address| address.port())
    }

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
            () = server.certificates.reload_on_change() => {}
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
        if request.uri().path() != "/metrics" {
            return text(StatusCode::NOT_FOUND, "not found\n");
        }
        let Some(token) = token else {
            return unauthorized();
        };
        match self.reviews.access(&token).await {
            Some(Access::Allowed) => {
                drop(token);
                self.scrapes.serve(permit).await
            }
            Some(Access::Unauthenticated) => unauthorized(),
            Some(Access::Forbidden) => text(StatusCode::FORBIDDEN, FORBIDDEN),
            None => try_again("the API server could not be asked about the token\n"),
        }
    }
}

fn take_token(headers: &mut HeaderMap) -> Option<SecretString> {
    let value = headers.remove(AUTHORIZATION)?;
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    let usable = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty();
    usable.then(|| SecretString::from(token))
}

fn unauthorized() -> Answer {
    let mut answer = text(StatusCode::UNAUTHORIZED, UNAUTHORIZED);
    let scheme = HeaderValue::from_static("Bearer");
    answer.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    answer
}

#[derive(Clone, Copy)]
enum Access {
    Allowed,
    Unauthenticated,
    Forbidden,
}

/// A hash of a token with this process's salt: of no use to anyone who reads it.
type Key = [u8; 32];

struct Reviews {
    client: kube::Client,
    salt: [u8; 16],
    recent: Mutex<HashMap<Key, (Instant, Access)>>,
    /// One review at a time: wrong tokens can't flood the API server.
    reviewing: tokio::sync::Mutex<()>,
    /// Whether the last review failed: each outage is logged once.
    failing: AtomicBool,
}

impl Reviews {
    fn new(client: kube::Client) -> Self {
        Self {
            client,
            salt: uuid::Uuid::new_v4().into_bytes(),
            recent: Mutex::default(),
            reviewing: tokio::sync::Mutex::default(),
            failing: AtomicBool::new(false),
        }
    }

    async fn access(&self, token: &SecretString) -> Option<Access> {
        let error = match timeout(REVIEW, self.recent_access(token)).await {
            Ok(Ok(access)) => return Some(access),
            Ok(Err(error)) => error_chain(&error),
            Err(_) => format!("no answer within {REVIEW:?}"),
        };
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                error,
                "failed to review a scraper's token; scrapes are answered 503 until a review succeeds"
            );
        }
        None
    }

    async fn recent_access(&self, token: &SecretString) -> kube::Result<Access> {
        let hash = Sha256::new().chain_update(self.salt);
        let key: Key = hash.chain_update(token.expose_secret()).finalize().into();
        let known = || {
            let mut recent = lock(&self.recent);
            recent.retain(|_, (since, _)| since.elapsed() < MAX_AGE);
            recent.get(&key).map(|(_, access)| *access)
        };
        if let Some(access) = known() {
            return Ok(access);
        }
        let _turn = self.reviewing.lock().await;
        if let Some(access) = known() {
            return Ok(access);
        }
        let since = Instant::now();
        let access = match self.authenticate(token).await? {
            Some(user) => self.authorize(user).await?,
            None => Access::Unauthenticated,
        };
        lock(&self.recent).insert(key, (since, access));
        if self.failing.swap(false, Ordering::Relaxed) {
            tracing::info!("scrapers' tokens are reviewed again");
        }
        Ok(access)
    }

    async fn authenticate(&self, token: &SecretString) -> kube::Result<Option<UserInfo>> {
        let mut review = TokenReview::default();
        review.spec.token = token.expose_secret().to_owned();
        let reviews = Api::<TokenReview>::all(self.client.clone());
        let reviewed = reviews.create(&PostParams::default(), &review).await?;
        let status = reviewed.status.filter(|s| s.authenticated == Some(true));
        Ok(status.and_then(|status| status.user))
    }

    /// Whether the user may get `/metrics`, a path that is no resource.
    async fn authorize(&self, user: UserInfo) -> kube::Result<Access> {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                uid: user.uid,
                groups: user.groups,
                extra: user.extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some("/metrics".to_owned()),
                    verb: Some("get".to_owned()),
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews = Api::<SubjectAccessReview>::all(self.client.clone());
        let reviewed = reviews.create(&PostParams::default(), &review).await?;
        Ok(match reviewed.status {
            Some(status) if status.allowed && status.denied != Some(true) => Access::Allowed,
            _ => Access::Forbidden,
        })
    }
}
