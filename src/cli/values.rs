//! Values of flags, read and refused.

use std::net::SocketAddr;
use std::time::Duration;

/// Refuses an empty value: it comes from a variable that is not set, and the default would often be the wider
/// one, such as all namespaces.
pub(super) fn given(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        let wrong =
            "the value is empty, as of a variable that is not set; omit the flag for its default";
        return Err(wrong.to_owned());
    }
    Ok(text.to_owned())
}

/// Reads `127.0.0.1:8081` or `[::1]:8081`.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = |_| {
        "an IP address and a port are needed, such as 0.0.0.0:8080 or 127.0.0.1:8081".to_owned()
    };
    text.parse().map_err(wrong)
}

/// Reads a duration of whole seconds, within the limits of the API server and kube's watcher.
pub(super) fn watch_timeout(text: &str) -> Result<Duration, String> {
    let whole = Duration::from_secs(duration(text)?.as_secs());
    if !(1..=290).contains(&whole.as_secs()) {
        return Err(format!("{text:?} is not within 1s and 290s"));
    }
    Ok(whole)
}

/// Reads `500ms`, `5s`, `10m` or `1h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!("{text:?} is no duration; write a number with ms, s, m or h, such as 500ms or 5m")
    };
    let span: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    let duration = Duration::try_from(span).map_err(|_| wrong())?;
    if duration < Duration::from_millis(10) {
        return Err(format!("{text:?} is too short; the least is 10ms"));
    }
    Ok(duration)
}
