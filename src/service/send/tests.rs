//! Files that lack.

use super::*;

/// Each lookup of a name fails with this error of the system.
struct NoName(i32);

impl reqwest::dns::Resolve for NoName {
    fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let error = io::Error::from_raw_os_error(self.0);
        Box::pin(async move { Err(error.into()) })
    }
}

#[tokio::test]
async fn a_call_that_gets_no_file_is_told_from_one_without_an_answer() {
    // Another test may have chosen it first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kind = async |code| {
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .dns_resolver(NoName(code))
            .build()
            .unwrap();
        let call = client.get("http://service.example").send();
        unanswered(call.await.unwrap_err()).kind
    };
    for code in NO_FILE {
        assert_eq!(kind(code).await, FailureKind::NoFile, "{code}");
    }
    assert_eq!(kind(111).await, FailureKind::NoAnswer);
}
