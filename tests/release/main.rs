//! A release as its own scripts make, publish, sign and verify it, with the real cosign, krew, Helm 3, kubeconform and a
//! registry: `make test-release`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "the suite packaging uses more of it")]
#[path = "../packaging/helm.rs"]
mod helm;

mod dist;
mod helm3;
mod krew;
mod published;
mod schemas;
mod signed;
