//! What an answer about a run says beside the run's id and state: its results, the address of its console, its progress,
//! and why it failed. The contract file names where each is, by default nowhere.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::overlay::List;
use super::profile::RunFields;
use super::{first, text};
use crate::api::limits::{MAX_CONSOLE_URL, MAX_FAILURE, MAX_PROGRESS_MESSAGE, MAX_RESULT};

/// As an answer said it, fit to be shown. Nothing is decided by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunDetails {
    pub results: BTreeMap<String, String>,
    /// Wherever it leads to.
    pub console_url: Option<String>,
    /// 0 to 100.
    pub percent: Option<i32>,
    pub message: Option<String>,
    pub failure: Option<String>,
}

impl RunFields {
    /// What an answer says. `shown` makes a text fit to be shown, in so many bytes.
    pub(super) fn read_details(
        &self,
        answer: &RawValue,
        shown: impl Fn(&str, usize) -> String,
    ) -> RunDetails {
        let told = |pointers: &[String], max: usize| {
            let read = |value: &RawValue| Some(shown(&scalar(value)?, max));
            let read = |value: &RawValue| read(value).filter(|text| !text.is_empty());
            Some(first(answer, pointers, read)?.1)
        };
        let percent = |pointers: &[String]| {
            Some(first(answer, pointers, |value| percent(&scalar(value)?))?.1)
        };
        let result = |(name, pointers): (&String, &List<String>)| {
            Some((name.clone(), told(pointers, MAX_RESULT)?))
        };
        RunDetails {
            results: self.result_pointers.0.iter().filter_map(result).collect(),
            console_url: told(&self.console_url_pointers, MAX_CONSOLE_URL),
            percent: percent(&self.progress_percent_pointers),
            message: told(&self.progress_message_pointers, MAX_PROGRESS_MESSAGE),
            failure: told(&self.failure_pointers, MAX_FAILURE),
        }
    }
}

/// The text of a non-empty string, of a number or of a boolean.
fn scalar(value: &RawValue) -> Option<String> {
    let boolean = matches!(value.get(), "true" | "false").then(|| value.get().to_owned());
    boolean.or_else(|| text(value))
}

/// A whole number, rounded down: 100 is the end.
fn percent(text: &str) -> Option<i32> {
    let number: f64 = text.trim().parse().ok()?;
    let within = (0.0..=100.0).contains(&number);
    within.then(|| format!("{:.0}", number.floor()).parse().ok())?
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0", Some(0))]
    #[case("42.9", Some(42))]
    #[case("100", Some(100))]
    #[case("1e2", Some(100))]
    #[case("1e-7", Some(0))]
    #[case("-0.0", Some(0))]
    #[case("100.1", None)]
    #[case("-1", None)]
    #[case("NaN", None)]
    #[case("40 %", None)]
    fn a_percentage_is_rounded_down_and_never_out_of_bounds(
        #[case] text: &str,
        #[case] is: Option<i32>,
    ) {
        assert_eq!(percent(text), is);
    }
}
