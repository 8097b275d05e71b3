//! What counts as a signature of a release, where somebody else has a key, too.

use std::fs;
use std::process::Command;

use test_support::tools::go_tool;

use crate::dist::Dist;
use crate::helm::done;
use crate::published::{digest, fails, keys};

/// cosign with a private key, as `.ci/sign` calls it.
fn cosign(verb: &str, key: &str, args: &[&str]) {
    let mut cosign = Command::new(go_tool("cosign").unwrap());
    cosign.args([verb, "--yes", "--key", key]);
    cosign.args(["--use-signing-config=false", "--tlog-upload=false"]);
    cosign.args(args).env("COSIGN_PASSWORD", "");
    done(&cosign.output().unwrap());
}

fn attest(key: &str, (kind, predicate): (&str, &str), reference: &str) {
    let attested = ["--type", kind, "--predicate", predicate, reference];
    cosign("attest", key, &attested);
}

/// With checksums that this pair of keys signs, the release is refused because of the operator's image.
#[track_caller]
fn refused(dist: &Dist, (key, public): &(String, String)) {
    let path = |name: &str| dist.path(name).display().to_string();
    let (sums, bundle) = (path("SHA256SUMS"), path("SHA256SUMS.sigstore.json"));
    cosign("sign-blob", key, &["--bundle", &bundle, &sums]);
    let image = format!(
        "run-operator@{} is NOT verified",
        digest(dist, "run-operator")
    );
    fails(&dist.script("verify", &[("PUBLIC_KEY", public)]), &image);
}

/// `cosign verify` takes an attestation for a signature.
/// Proves: I-release
#[test]
fn signature_and_attestations_are_needed_of_one_key() {
    let dist = Dist::new();
    let (ours, another) = (keys(&dist, "ours"), keys(&dist, "another"));
    let published = done(&dist.script("publish", &[]));
    let references: Vec<&str> = published.lines().collect();
    assert_eq!(references.len(), 4, "{published}");

    // Attested, and not signed.
    let predicate = dist.path("homes/predicate.json").display().to_string();
    fs::write(&predicate, "{}").unwrap();
    for &reference in &references {
        for kind in ["slsaprovenance1", "cyclonedx"] {
            attest(&ours.0, (kind, &predicate), reference);
        }
    }
    refused(&dist, &ours);
    // Signed by another key. By that key it is not attested.
    for &reference in &references {
        cosign("sign", &another.0, &[reference]);
    }
    refused(&dist, &ours);
    refused(&dist, &another);

    // Signed, and with one of the attestations.
    let provenance = dist.path("attested/provenance.json").display().to_string();
    let bill = dist.path("homes/bill.json").display().to_string();
    fs::write(&bill, r#"{"bomFormat": "CycloneDX", "specVersion": "1.5"}"#).unwrap();
    for (kind, predicate) in [("slsaprovenance1", &provenance), ("cyclonedx", &bill)] {
        let pair = keys(&dist, kind);
        for &reference in &references {
            cosign("sign", &pair.0, &[reference]);
            attest(&pair.0, (kind, predicate), reference);
        }
        refused(&dist, &pair);
    }
}
