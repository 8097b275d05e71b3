//! The series of `/metrics`, parsed.

use std::collections::BTreeMap;

/// One series: its name, its labels, its value.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

/// Every series of the text format.
pub(crate) fn series(text: &str) -> Vec<Series> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let read = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.strip_suffix('}').unwrap();
        let pairs = labels.split("\",").filter(|label| !label.is_empty());
        let pairs = pairs.map(|label| label.split_once("=\"").unwrap());
        Series {
            name: name.to_owned(),
            labels: pairs
                .map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned()))
                .collect(),
            value: value.parse().unwrap(),
        }
    };
    samples.map(read).collect()
}
