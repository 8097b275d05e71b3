//! Files that lack, and `Retry-After`.

use super::*;
use http::HeaderValue;
use rstest::rstest;

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

#[rstest]
#[case("0", Some(0))]
#[case("120", Some(120))]
#[case(" 7 ", Some(7))]
#[case("99999999999999999999999", Some(u64::MAX))]
#[case("Sun, 06 Nov 1994 08:50:00 GMT", Some(23))]
#[case("Mon, 06 Nov 1994 08:50:00 GMT", Some(23))]
#[case("Sunday, 06-Nov-94 08:50:00 GMT", Some(23))]
#[case("Sun Nov  6 08:50:00 1994", Some(23))]
#[case("Sun, 06 Nov 1994 08:00:00 GMT", Some(0))]
#[case("", None)]
#[case("-1", None)]
#[case("soon", None)]
fn every_form_is_read(#[case] text: &str, #[case] seconds: Option<u64>) {
    let now: Timestamp = "1994-11-06T08:49:37Z".parse().unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, HeaderValue::from_str(text).unwrap());
    assert_eq!(retry_after(&headers, now), seconds.map(Duration::from_secs));
}

/// Proves: P-clock
#[test]
fn a_date_is_compared_with_the_date_of_its_own_answer() {
    let mut headers = HeaderMap::new();
    let header = |text| HeaderValue::from_static(text);
    headers.insert(DATE, header("Sun, 06 Nov 1994 08:49:37 GMT"));
    headers.insert(RETRY_AFTER, header("Sun, 06 Nov 1994 08:50:00 GMT"));
    let an_hour_early: Timestamp = "1994-11-06T07:49:37Z".parse().unwrap();
    assert_eq!(
        retry_after(&headers, an_hour_early),
        Some(Duration::from_secs(23))
    );
    headers.insert(DATE, header("today"));
    let near: Timestamp = "1994-11-06T08:49:59Z".parse().unwrap();
    assert_eq!(retry_after(&headers, near), Some(Duration::from_secs(1)));
}
