//! Durations as kubectl prints them: the two largest units, and one where it says enough.

use jiff::{SignedDuration, Timestamp};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// The time from `from` to `to`. A time in the future, as clocks differ, is `0s`.
pub fn between(from: Timestamp, to: Timestamp) -> String {
    human(to.duration_since(from))
}

/// A duration as in kubectl's column AGE, such as `45s`, `5m30s`, `3h`, `2d4h`.
pub fn human(duration: SignedDuration) -> String {
    let s = duration.as_secs().max(0);
    match s {
        _ if s < 2 * MINUTE => format!("{s}s"),
        _ if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        _ if s < 3 * HOUR => format!("{}m", s / MINUTE),
        _ if s < 8 * HOUR => two(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        _ if s < 2 * DAY => format!("{}h", s / HOUR),
        _ if s < 8 * DAY => two(s / DAY, "d", s % DAY / HOUR, "h"),
        _ if s < 2 * YEAR => format!("{}d", s / DAY),
        _ if s < 8 * YEAR => two(s / YEAR, "y", s % YEAR / DAY, "d"),
        _ => format!("{}y", s / YEAR),
    }
}

fn two(more: i64, large: &str, less: i64, small: &str) -> String {
    if less == 0 {
        format!("{more}{large}")
    } else {
        format!("{more}{large}{less}{small}")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(-5, "0s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(330, "5m30s")]
    #[case(3 * HOUR - 1, "179m")]
    #[case(3 * HOUR, "3h")]
    #[case(7 * HOUR + 150, "7h2m")]
    #[case(47 * HOUR, "47h")]
    #[case(2 * DAY, "2d")]
    #[case(2 * DAY + 4 * HOUR, "2d4h")]
    #[case(8 * DAY, "8d")]
    #[case(2 * YEAR - DAY, "729d")]
    #[case(2 * YEAR, "2y")]
    #[case(3 * YEAR + 2 * DAY, "3y2d")]
    #[case(9 * YEAR + 2 * DAY, "9y")]
    fn a_duration_reads_as_in_kubectl(#[case] seconds: i64, #[case] text: &str) {
        assert_eq!(human(SignedDuration::from_secs(seconds)), text);
    }
}
