//! Who a scraper is (`TokenReview`), and whether it may get `/metrics` (`SubjectAccessReview`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use run_operator::util::error_chain;

use super::verdicts::{Verdict, Verdicts};

/// Time for both reviews of a token, the wait for a permit or for another scrape's review included.
const REVIEW: Duration = Duration::from_secs(5);
/// Reviews at the same time: wrong tokens can't flood the API server.
const REVIEWS: usize = 4;

/// No verdict could be had.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error("failed to create a TokenReview")]
    Authentication(#[source] kube::Error),
    #[error("failed to create a SubjectAccessReview")]
    Authorization(#[source] kube::Error),
    #[error("failed to review a token in time")]
    TimedOut(#[source] Elapsed),
}

/// Reviews by the API server, and their recent results.
pub(super) struct Reviews {
    authentication: Api<TokenReview>,
    authorization: Api<SubjectAccessReview>,
    permits: Semaphore,
    verdicts: Verdicts,
    /// Whether the last review failed: each outage is logged once.
    failing: AtomicBool,
}

impl Reviews {
    pub(super) fn new(client: kube::Client) -> Self {
        Self {
            authentication: Api::all(client.clone()),
            authorization: Api::all(client),
            permits: Semaphore::new(REVIEWS),
            verdicts: Verdicts::new(),
            failing: AtomicBool::new(false),
        }
    }

    /// The verdict on a token, at most ten seconds old; `None` if the API server can't be asked.
    pub(super) async fn verdict(&self, token: &SecretString) -> Option<Verdict> {
        let cell = self.verdicts.cell(token);
        let review = cell.get_or_try_init(|| self.review(token));
        let in_time = timeout(REVIEW, review).await;
        let verdict = in_time.map_err(ReviewError::TimedOut).and_then(|v| v);
        if let Err(error) = &verdict {
            self.failed(error);
        }
        verdict.ok().copied()
    }

    async fn review(&self, token: &SecretString) -> Result<Verdict, ReviewError> {
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
    async fn authenticate(&self, token: &SecretString) -> Result<Option<UserInfo>, ReviewError> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.expose_secret().to_owned(),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let params = PostParams::default();
        let reviewed = self.authentication.create(&params, &review).await;
        let status = reviewed.map_err(ReviewError::Authentication)?.status;
        let status = status.filter(|status| status.authenticated == Some(true));
        Ok(status.and_then(|status| status.user))
    }

    /// Whether the user may get `/metrics`, a path that is no resource.
    async fn authorize(&self, user: UserInfo) -> Result<Verdict, ReviewError> {
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
        let params = PostParams::default();
        let reviewed = self.authorization.create(&params, &review).await;
        let status = reviewed.map_err(ReviewError::Authorization)?.status;
        let allowed = status.is_some_and(|s| s.allowed && s.denied != Some(true));
        Ok(if allowed {
            Verdict::Allowed
        } else {
            Verdict::Forbidden
        })
    }

    fn failed(&self, error: &ReviewError) {
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                error = error_chain(error),
                "failed to review a scraper's token; scrapes are answered 503 until a review succeeds"
            );
        }
    }
}
