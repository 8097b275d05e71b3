//! A contract file.

use std::error::Error;

use crate::api::Contract;
use crate::api::contract::StateClass;

pub fn contract(input: &[u8]) {
    let Ok(yaml) = std::str::from_utf8(input) else {
        return;
    };
    match Contract::parse(yaml) {
        Ok(contract) => is_sane(&contract),
        Err(error) => is_told_on_one_line(&error),
    }
}

/// Why a file is refused is said on one line, in bounds.
fn is_told_on_one_line(error: &dyn Error) {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        told = format!("{told}: {error}");
        cause = error.source();
    }
    assert!(!told.chars().any(char::is_control), "{told:?}");
}

/// What the checks of a contract file are for.
fn is_sane(file: &Contract) {
    for word in ["", " "] {
        assert_eq!(file.state(word), StateClass::Unmapped);
    }
    for status in [200, 401, 403, 409, 429, 500, 503] {
        assert!(!file.refuses_create(status));
    }
    assert!(!file.accepts_version("") || file.accepted_versions().is_empty());
    assert!(file.key_retention_seconds() >= 60 && file.limits().body_bytes >= 1024);
    assert!(file.timeouts().request_seconds >= 1);
    assert!(!file.version_pointers().is_empty());
}
