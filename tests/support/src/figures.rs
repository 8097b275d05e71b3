//! The figures of a proof or a measurement, for docs/reliability.md and docs/performance.md: always printed, and kept
//! as a file where `RUN_OPERATOR_FIGURES` names a directory, as `make prove` and `make bench` do. `make generate` makes
//! the documents' tables and plots of these files.

use std::fmt::Display;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::measured;

/// The figures of one part, such as `model`; a part of several tests has one for each, `leader.takeover`.
pub struct Figures {
    part: String,
    measured: Kept,
}

/// Figures as their file has them.
#[derive(Default, Deserialize, Serialize)]
pub struct Kept {
    /// That they were measured on.
    pub commit: String,
    /// Of the code that they were measured on.
    #[serde(default)]
    pub code: measured::Hashes,
    pub rows: Vec<(String, String)>,
    pub tables: Vec<Table>,
    /// Only measurements have some.
    #[serde(default)]
    pub plots: Vec<Plot>,
    /// Of the part, what is still to be measured.
    #[serde(default)]
    pub left: usize,
}

/// A table of figures.
#[derive(Deserialize, Serialize)]
pub struct Table {
    pub title: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// A plot: for each label, a value of each series.
#[derive(Deserialize, Serialize)]
pub struct Plot {
    /// The title, with the unit of the values.
    pub title: String,
    pub kind: PlotKind,
    pub labels: Vec<String>,
    pub series: Vec<(String, Vec<f64>)>,
}

/// How a plot shows its values.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PlotKind {
    Bars,
    Lines,
}

impl Figures {
    /// No figures yet.
    pub fn new(part: impl Into<String>) -> Self {
        Self {
            part: part.into(),
            measured: Kept::default(),
        }
    }

    /// How much of the part is still to be measured: a page says so, and another run goes on with it.
    #[must_use]
    pub fn left(mut self, left: usize) -> Self {
        self.measured.left = left;
        self
    }

    /// One figure.
    #[must_use]
    pub fn row(mut self, what: impl Into<String>, value: impl Display) -> Self {
        self.measured.rows.push((what.into(), value.to_string()));
        self
    }

    /// A table of figures.
    #[must_use]
    pub fn table(
        mut self,
        title: impl Into<String>,
        head: &[&str],
        rows: Vec<Vec<String>>,
    ) -> Self {
        self.measured.tables.push(Table {
            title: title.into(),
            head: head.iter().map(ToString::to_string).collect(),
            rows,
        });
        self
    }

    /// A plot of figures that are in a table too: it is kept, but not printed.
    #[must_use]
    pub fn plot(mut self, plot: Plot) -> Self {
        self.measured.plots.push(plot);
        self
    }

    /// Prints them, and keeps them where that is asked for.
    ///
    /// # Panics
    /// If the directory cannot be written.
    pub fn record(mut self) {
        let part = self.part;
        for (what, value) in &self.measured.rows {
            eprintln!("figures {part}: {what}: {value}");
        }
        for Table { title, head, rows } in &self.measured.tables {
            eprintln!("figures {part}: {title}");
            for row in std::iter::once(head).chain(rows) {
                eprintln!("  {}", row.join(" | "));
            }
        }
        let Some(directory) = std::env::var_os("RUN_OPERATOR_FIGURES").map(PathBuf::from) else {
            return;
        };
        std::fs::create_dir_all(&directory).unwrap();
        self.measured.commit = std::env::var("RUN_OPERATOR_COMMIT").unwrap_or_default();
        self.measured.code = measured::now(&part);
        let text = serde_json::to_string_pretty(&self.measured).unwrap() + "\n";
        std::fs::write(directory.join(format!("{part}.json")), text).unwrap();
    }
}
