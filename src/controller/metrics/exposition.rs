//! The two text formats of Prometheus. Scrapers ask for their format; without such a request they get the older one,
//! which all of them read.

use std::fmt::Write as _;

/// A format of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's own text format.
    Text,
    /// `OpenMetrics`.
    OpenMetrics,
}

impl Format {
    /// The format that a request's `Accept` header asks for.
    pub fn asked_for(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::OpenMetrics,
            _ => Self::Text,
        }
    }

    /// Its content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Converts `OpenMetrics` to this format.
    pub(crate) fn of(self, text: String) -> String {
        match self {
            Self::Text => plain(&text),
            Self::OpenMetrics => text,
        }
    }
}

/// Converts to the older format. For the features used here, it differs in two ways: a counter's head has the name of
/// its series, and there is no end mark.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "# EOF" {
            continue;
        }
        let head = line
            .strip_prefix("# HELP ")
            .and_then(|rest| rest.split_once(' '));
        if let (Some((name, help)), Some(next)) = (head, lines.peek())
            && *next == format!("# TYPE {name} counter")
        {
            lines.next();
            let _ = writeln!(
                plain,
                "# HELP {name}_total {help}\n# TYPE {name}_total counter"
            );
            continue;
        }
        plain.push_str(line);
        plain.push('\n');
    }
    plain
}
