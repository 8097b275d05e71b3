//! The header `Retry-After`: seconds, or a date in one of three forms.

use std::time::Duration;

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::tz::TimeZone;

/// The preferred form of a date, `Sun, 06 Nov 1994 08:49:37 GMT`. A wrong weekday is no reason to retry at once.
static PREFERRED: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);
/// The obsolete forms, which a recipient must still understand (RFC 9110, 5.6.7).
const OBSOLETE: [&str; 2] = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// Unclamped; zero for a past date. A date is from the service's clock: compared with the answer's `Date`, else `wall`.
pub(super) fn retry_after(headers: &HeaderMap, wall: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // More digits than a number holds still mean "very long".
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let sent = headers.get(DATE).and_then(|value| value.to_str().ok());
    let sent = sent.and_then(|text| date(text.trim())).unwrap_or(wall);
    let wait = date(text)?.duration_since(sent);
    Some(Duration::try_from(wait).unwrap_or(Duration::ZERO))
}

fn date(text: &str) -> Option<Timestamp> {
    if let Ok(at) = PREFERRED.parse_timestamp(text) {
        return Some(at);
    }
    OBSOLETE.iter().find_map(|form| {
        let at = DateTime::strptime(form, text).ok()?;
        Some(at.to_zoned(TimeZone::UTC).ok()?.timestamp())
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use rstest::rstest;

    use super::*;

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
}
