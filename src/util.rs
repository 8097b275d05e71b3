//! Helpers that several layers share.

use std::error::Error;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

pub fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a String can't fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

pub fn error_chain(error: &dyn Error) -> String {
    chained(error.to_string(), error.source())
}

/// What could not be done, and why, where nobody has to tell the causes apart.
#[derive(Debug, thiserror::Error)]
#[error("failed to {what}")]
pub struct Failed {
    what: String,
    source: Box<dyn Error + Send + Sync>,
}

/// For `map_err`: `failed("use --base-url")`.
pub fn failed<E: Into<Box<dyn Error + Send + Sync>>>(
    what: impl Into<String>,
) -> impl FnOnce(E) -> Failed {
    move |source| Failed {
        what: what.into(),
        source: source.into(),
    }
}

/// A text, followed by a cause and its sources.
pub fn chained(mut text: String, mut cause: Option<&(dyn Error + 'static)>) -> String {
    while let Some(error) = cause {
        let cause_text = error.to_string();
        // reqwest's own texts ("error sending request") say less than what is around them, and some libraries repeat
        // their source in their own text.
        let says_less = error.is::<reqwest::Error>() && error.source().is_some();
        if !says_less && !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        cause = error.source();
    }
    text
}

/// Locks a mutex even if it is poisoned: no holder leaves it half-changed, so that a panic need not spread.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
