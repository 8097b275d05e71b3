//! Addresses as written, and the results of parsing them.

use rstest::rstest;

use super::*;

fn parse(text: &str) -> Result<BaseUrl, BaseUrlError> {
    let allowed = AllowList::parse(
        [
            "https://runs.example.com/api",
            "http://127.0.0.1:8080",
            "http://localhost",
            "http://[::1]:9",
        ],
        false,
    )
    .unwrap();
    BaseUrl::parse(text, &allowed)
}

/// Proves: X-allow-list
#[rstest]
#[case("https://runs.example.com/api/v1", "https://runs.example.com/api/v1")]
#[case("https://runs.example.com/api/v1/", "https://runs.example.com/api/v1")]
#[case("HTTPS://RUNS.example.com:443/api", "https://runs.example.com/api")]
#[case(
    "https://runs.example.com/api/x/../v1//",
    "https://runs.example.com/api/v1"
)]
#[case("http://127.0.0.1:8080", "http://127.0.0.1:8080")]
#[case("http://127.1:8080/api/v1", "http://127.0.0.1:8080/api/v1")]
#[case("http://LOCALHOST/", "http://localhost")]
#[case("http://[0:0::1]:9/api", "http://[::1]:9/api")]
// Other notations of one and the same address: the address counts.
#[case("http://2130706433:8080", "http://127.0.0.1:8080")]
#[case("http://127.0.0.1.:8080", "http://127.0.0.1:8080")]
#[case("https://runs%2Eexample%2Ecom/api", "https://runs.example.com/api")]
#[case("https://ｒｕｎｓ.example。com/api", "https://runs.example.com/api")]
#[case(
    "https://runs.example.com/api/a%20b",
    "https://runs.example.com/api/a%20b"
)]
fn an_allowed_address_is_normalised(#[case] text: &str, #[case] normal: &str) {
    assert_eq!(parse(text).unwrap().as_str(), normal);
}

/// Proves: X-allow-list
#[rstest]
#[case("https://runs.example.com/apix")]
#[case("https://runs.example.com/api/../v1")]
#[case("https://runs.example.com/api/%2e%2e/v1")]
#[case("https://runs.example.com/")]
#[case("https://runs.example.com:8443/api")]
#[case("https://runs.example.com.evil.test/api")]
#[case("https://other.example.com/api")]
#[case("https://runs.example.com./api")]
#[case("https://runs.example.com/API")]
#[case("https://runs.example.com//api")]
// Letters that look alike: Cyrillic "а", and the same name as its punycode.
#[case("https://runs.ex\u{430}mple.com/api")]
#[case("https://runs.xn--exmple-4nf.com/api")]
#[case("https://169.254.169.254/latest/meta-data")]
#[case("https://[::1]:9/api")]
#[case("http://[::1]:10/api")]
#[case("http://localhost:8080")]
#[case("http://127.0.0.2:8080")]
#[case("https://127.0.0.1:8080")]
fn an_address_off_the_list_is_refused(#[case] text: &str) {
    assert!(matches!(
        parse(text).unwrap_err(),
        BaseUrlError::NotAllowed { .. }
    ));
}

/// Proves: X-allow-list
#[rstest]
#[case("http://runs.example.com/api")]
#[case("http://localhost.example.com")]
#[case("http://localhost.")]
#[case("http://evil.localhost")]
#[case("http://169.254.169.254/latest/meta-data")]
#[case("http://0xa9fea9fe/latest/meta-data")]
#[case("http://[::ffff:169.254.169.254]/latest")]
#[case("http://[::127.0.0.1]:8080")]
#[case("http://127.0.0.1.nip.io:8080")]
#[case("http://0.0.0.0:8080")]
#[case("http://[::ffff:127.0.0.1]:8080")]
#[case("http://[::]:9")]
fn plain_http_to_what_only_looks_like_loopback_is_refused(#[case] text: &str) {
    assert!(matches!(
        parse(text).unwrap_err(),
        BaseUrlError::InsecureHttp { .. }
    ));
}

/// Proves: X-allow-list
#[rstest]
#[case("https://user@runs.example.com/api", BaseUrlError::UserInfo)]
#[case("https://:secret@runs.example.com/api", BaseUrlError::UserInfo)]
#[case("https://runs.example.com/api?", BaseUrlError::QueryOrFragment)]
#[case("https://runs.example.com/api#x", BaseUrlError::QueryOrFragment)]
#[case(
    "https://runs.example.com\\@evil.test/api",
    BaseUrlError::IllegalCharacter
)]
#[case(&format!("https://runs.example.com/{}", "a".repeat(512)), BaseUrlError::TooLong)]
#[case("https://runs.example.com/a\tpi", BaseUrlError::IllegalCharacter)]
#[case(" https://runs.example.com/api", BaseUrlError::IllegalCharacter)]
#[case("ftp://runs.example.com/api", BaseUrlError::NotHttp)]
#[case("https://runs.example.com@evil.test/api", BaseUrlError::UserInfo)]
#[case(
    "https://runs.example.com\0.evil.test/api",
    BaseUrlError::IllegalCharacter
)]
#[case("https://runs.example.com\u{a0}/api", BaseUrlError::IllegalCharacter)]
#[case("https://runs.example.com/api%2Fv1", BaseUrlError::AmbiguousPath)]
#[case(
    "https://runs.example.com/api/%2f..%2fadmin",
    BaseUrlError::AmbiguousPath
)]
#[case(
    "https://runs.example.com/api/%5c..%5cadmin",
    BaseUrlError::AmbiguousPath
)]
#[case(
    "https://runs.example.com/api/%252e%252e/admin",
    BaseUrlError::AmbiguousPath
)]
#[case("https://runs.example.com/api/..;/admin", BaseUrlError::AmbiguousPath)]
#[case("https://runs.example.com/api/a%0d%0ab", BaseUrlError::AmbiguousPath)]
fn a_base_url_with_more_than_an_address_is_refused(
    #[case] text: &str,
    #[case] error: BaseUrlError,
) {
    assert_eq!(parse(text).unwrap_err(), error);
}

/// Proves: X-allow-list
#[rstest]
#[case("https://")]
#[case("//runs.example.com/api")]
#[case("runs.example.com/api")]
#[case("https://runs.example.com%40evil.test/api")]
#[case("https://runs.example.com%00.evil.test/api")]
#[case("https://runs.example.com:99999/api")]
#[case("http://[::1%25lo]:9/api")]
#[case("http://127.0.0.1.5:8080")]
#[case("http://127.0.0.256:8080")]
fn an_address_that_names_no_host_for_certain_is_refused(#[case] text: &str) {
    assert!(parse(text).is_err(), "{text}");
}

#[test]
fn the_longest_address_is_accepted_and_shown_as_it_is() {
    let start = "https://runs.example.com/api/";
    let longest = format!("{start}{}", "a".repeat(MAX_BASE_URL - start.len()));
    let url = parse(&longest).unwrap();
    assert_eq!(url.to_string(), longest);
    assert_eq!(format!("{url:?}"), format!("BaseUrl({longest:?})"));
    let error = parse(&format!("{longest}a")).unwrap_err();
    assert_eq!(error, BaseUrlError::TooLong);
}

#[test]
fn a_password_never_shows_in_the_refusal() {
    let error = parse("https://u:canary@runs.example.com/api").unwrap_err();
    assert!(!format!("{error} {error:?}").contains("canary"));
}

/// Proves: X-allow-list
#[test]
fn insecure_http_needs_both_the_flag_and_the_allow_list() {
    let allowed = AllowList::parse(["http://runs.test"], true).unwrap();
    assert!(BaseUrl::parse("http://runs.test/v1", &allowed).is_ok());
    assert!(BaseUrl::parse("http://other.test/v1", &allowed).is_err());
    assert!(AllowList::parse(["http://runs.test"], false).is_err());
}

#[test]
fn an_empty_list_allows_nothing() {
    let url = BaseUrl::parse("https://runs.example.com", &AllowList::default());
    assert!(matches!(url, Err(BaseUrlError::NotAllowed { .. })));
}

/// Found by fuzzing: such an address doesn't fit into the status, and its write would be refused.
#[test]
fn an_address_that_is_too_long_once_it_is_normalised_is_refused() {
    let fits = format!("https://h/{}", "\u{20ac}".repeat(55));
    let allowed = AllowList::parse([&fits], false).unwrap();
    assert_eq!(BaseUrl::parse(&fits, &allowed).unwrap().as_str().len(), 505);
    let too_long = format!("https://h/{}", "\u{20ac}".repeat(56));
    assert_eq!(
        AllowList::parse([too_long], false).unwrap_err(),
        BaseUrlError::TooLong
    );
}

// What a Workspace no longer allows is still what its intents name.
#[rstest]
#[case("http://LOCALHOST:80/", Some("http://localhost"))]
#[case(
    "https://runs.example.com:443/api/",
    Some("https://runs.example.com/api")
)]
#[case("runs.example.com", None)]
fn an_address_is_normalised_allowed_or_not(#[case] text: &str, #[case] normal: Option<&str>) {
    assert_eq!(BaseUrl::normalised(text).as_deref(), normal);
}
