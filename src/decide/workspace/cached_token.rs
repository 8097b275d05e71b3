//! The last good token: the last content of a Secret that was deleted. The deletion of a namespace removes the Secret
//! first, and the runs of that namespace must still be cancelled.

use crate::api::Reason;
use crate::decide::conditions::Why;

/// The Workspace and base URL that a token was verified for; it is used for no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The Workspace's uid.
    pub uid: String,
    /// The base URL that verified it.
    pub base_url: String,
}

/// Whether the last good token may be used instead of the Secret: only if the Secret was deleted. An existing Secret
/// without a good token was changed on purpose.
pub fn outlives(why: &Why) -> bool {
    why.reason == Reason::SecretNotFound
}

/// Message of a Workspace that uses the last good token.
pub(crate) fn cached_token(secret_deleted: &Why) -> Why {
    let what = &secret_deleted.message;
    Why::new(
        secret_deleted.reason,
        format!(
            "{what} Submitted Runs continue with the last good token; new submissions are blocked."
        ),
    )
}

/// Reason why a check stopped. If the service rejected the last good token, the message adds that it was that one.
pub(crate) fn rejected(why: Why, secret_deleted: Option<&Why>) -> Why {
    match secret_deleted {
        Some(deleted) if why.reason == Reason::Unauthorized => Why::new(
            why.reason,
            format!(
                "{} It was the last good one. {}",
                why.message, deleted.message
            ),
        ),
        _ => why,
    }
}
