//! The last good token: what a Secret last held, where the Secret is gone. The deletion of a namespace
//! takes it first, and the runs of that namespace are still to be cancelled.

use crate::api::Reason;

use super::situation::Why;

/// What a token was verified for: it is good for nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The Workspace's uid.
    pub uid: String,
    /// The base URL that answered for it.
    pub base_url: String,
}

/// Whether what a Secret last held may be used in its stead: only where the Secret is gone. One that is
/// there and holds no good token was changed on purpose.
pub fn outlives(why: &Why) -> bool {
    why.reason == Reason::SecretNotFound
}

/// What a Workspace says that goes on with the last good token.
pub(super) fn goes_on(secret_gone: &Why) -> Why {
    let what = &secret_gone.message;
    Why::new(
        secret_gone.reason,
        format!("{what} Submitted Runs go on with the last good token; new submissions are held."),
    )
}

/// What stopped a check; that it was made with the last good token is said along with a rejection of it.
pub(super) fn rejected(why: Why, secret_gone: Option<&Why>) -> Why {
    match secret_gone {
        Some(gone) if why.reason == Reason::Unauthorized => Why::new(
            why.reason,
            format!("{} It was the last good one. {}", why.message, gone.message),
        ),
        _ => why,
    }
}
