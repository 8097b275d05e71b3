//! Helpers that several layers share.

use std::error::Error;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

/// SHA-256 in hexadecimal.
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

/// An error with its sources on one line.
pub fn error_chain(error: &dyn Error) -> String {
    chained(error.to_string(), error.source())
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
