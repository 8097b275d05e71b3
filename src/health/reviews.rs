//! Who a scraper is (`TokenReview`), and whether it may get `/metrics` (`SubjectAccessReview`). Recent verdicts are kept,
//! so that a scraper costs the API server two requests in ten seconds at most.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::Api;
use kube::api::PostParams;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::timeout;

use run_operator::util::{error_chain, lock};

/// Time for both reviews of a token, the wait for a permit or for another scrape's review included.
const REVIEW: Duration = Duration::from_secs(5);
/// Reviews at the same time: wrong tokens can't flood the API server.
const REVIEWS: usize = 4;
/// Age at which a verdict is no longer used: a permission that is taken away ends after this time.
const MAX_AGE: Duration = Duration::from_secs(10);
/// Verdicts beyond which those that allow nothing are dropped: wrong tokens take no memory, and no scraper's place.
const MAX_VERDICTS: usize = 256;

/// The API server's verdict on a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// No valid token.
    Unauthenticated,
    /// A valid token without the permission.
    Forbidden,
}

/// A hash of a token with this process's salt: of no use to anyone who reads it.
type Key = [u8; 32];
/// A verdict, or the place for one that is being asked for.
type Cell = Arc<OnceCell<Verdict>>;

/// Reviews by the API server, and their recent results.
pub(super) struct Reviews {
    client: kube::Client,
    permits: Semaphore,
    salt: [u8; 16],
    verdicts: Mutex<HashMap<Key, (Instant, Cell)>>,
    /// Whether the last review failed: each outage is logged once.
    failing: AtomicBool,
}

impl Reviews {
    pub(super) fn new(client: kube::Client) -> Self {
        Self {
            client,
            permits: Semaphore::new(REVIEWS),
            salt: uuid::Uuid::new_v4().into_bytes(),
            verdicts: Mutex::default(),
            failing: AtomicBool::new(false),
        }
    }

    /// The verdict on a token, at most ten seconds old; `None` if the API server can't be asked.
    pub(super) async fn verdict(&self, token: &SecretString) -> Option<Verdict> {
        let cell = self.cell(token);
        let review = cell.get_or_try_init(|| self.review(token));
        let error = match timeout(REVIEW, review).await {
            Ok(Ok(verdict)) => return Some(*verdict),
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

    /// The token's cell. Simultaneous requests with one token share it, and so one review.
    fn cell(&self, token: &SecretString) -> Cell {
        let hash = Sha256::new().chain_update(self.salt);
        let key: Key = hash.chain_update(token.expose_secret()).finalize().into();
        let now = Instant::now();
        let mut verdicts = lock(&self.verdicts);
        let fresh = |since: Instant| now.saturating_duration_since(since) < MAX_AGE;
        if let Some((_, cell)) = verdicts.get(&key).filter(|(since, _)| fresh(*since)) {
            return Arc::clone(cell);
        }
        let full = verdicts.len() >= MAX_VERDICTS;
        verdicts.retain(|_, (since, cell)| {
            fresh(*since) && (!full || cell.get() == Some(&Verdict::Allowed))
        });
        let cell = Cell::default();
        verdicts.insert(key, (now, Arc::clone(&cell)));
        cell
    }

    async fn review(&self, token: &SecretString) -> kube::Result<Verdict> {
        let _permit = self.permits.acquire().await;
        let verdict = match self.authenticate(token).await? {
            Some(user) => self.authorize(user).await?,
            None => Verdict::Unauthenticated,
        };
        if self.failing.swap(false, Ordering::Relaxed) {
            tracing::info!("scrapers' tokens are reviewed again");
        }
        Ok(verdict)
    }

    /// The token's user, if it is valid for this API server.
    async fn authenticate(&self, token: &SecretString) -> kube::Result<Option<UserInfo>> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.expose_secret().to_owned(),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let reviews = Api::<TokenReview>::all(self.client.clone());
        let reviewed = reviews.create(&PostParams::default(), &review).await?;
        let status = reviewed.status.filter(|s| s.authenticated == Some(true));
        Ok(status.and_then(|status| status.user))
    }

    /// Whether the user may get `/metrics`, a path that is no resource.
    async fn authorize(&self, user: UserInfo) -> kube::Result<Verdict> {
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
                resource_attributes: None,
            },
            ..SubjectAccessReview::default()
        };
        let reviews = Api::<SubjectAccessReview>::all(self.client.clone());
        let reviewed = reviews.create(&PostParams::default(), &review).await?;
        let allowed = |s: &SubjectAccessReviewStatus| s.allowed && s.denied != Some(true);
        Ok(match reviewed.status.filter(allowed) {
            Some(_) => Verdict::Allowed,
            None => Verdict::Forbidden,
        })
    }
}
