//! A table with a column for each case that was measured.

use std::fmt::Display;

use super::figures::Figures;

use super::stage::Requests;

/// What is shown where a case has no value.
const NONE: &str = "-";

/// What was measured of one case, in the order of its rows.
pub(super) struct Column {
    title: String,
    cells: Vec<(String, String)>,
}

impl Column {
    /// A case without values.
    pub(super) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            cells: Vec::new(),
        }
    }

    /// One value.
    pub(super) fn cell(mut self, what: impl Into<String>, value: impl Display) -> Self {
        self.cells.push((what.into(), value.to_string()));
        self
    }

    /// The number of requests of each kind.
    pub(super) fn requests(self, requests: &Requests) -> Self {
        let counts = requests.rows().into_iter();
        counts.fold(self, |column, (what, count)| column.cell(what, count))
    }

    /// The number of requests of each kind for each of so many Runs.
    pub(super) fn requests_for_each(self, requests: &Requests, runs: usize) -> Self {
        let counts = requests.for_each(runs).into_iter();
        counts.fold(self, |column, (what, count)| column.cell(what, count))
    }
}

/// Adds a table with these columns. A row that is new in a later column follows the others.
pub(super) fn table(figures: Figures, title: &str, columns: &[Column]) -> Figures {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in columns.iter().flat_map(|column| &column.cells) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let row = |name: &str| {
        let of = |column: &Column| {
            let found = column.cells.iter().find(|(what, _)| what == name);
            found.map_or(NONE, |(_, value)| value).to_owned()
        };
        let cells = columns.iter().map(of);
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    let rows = names.into_iter().map(row).collect();
    let titles = columns.iter().map(|column| column.title.as_str());
    let head: Vec<&str> = std::iter::once("").chain(titles).collect();
    figures.table(title, &head, rows)
}
