//! The figures of a proof or a measurement, for docs/reliability.md and docs/performance.md: always printed, and kept
//! as a file where `RUN_OPERATOR_FIGURES` names a directory, as `make prove` and `make bench` do. `make generate` makes
//! the documents' tables and plots of these files.

use std::fmt::Display;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::measured;

/// The figures of one part, such as `model`; a part of several tests has one for each, `leader.takeover`.
pub struct Figures {
    part: String,
    rows: Vec<(String, String)>,
    tables: Vec<(String, Vec<String>, Vec<Vec<String>>)>,
    plots: Vec<Plot>,
    left: usize,
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
            rows: Vec::new(),
            tables: Vec::new(),
            plots: Vec::new(),
            left: 0,
        }
    }

    /// How much of the part is still to be measured: a page says so, and another run goes on with it.
    #[must_use]
    pub fn left(mut self, left: usize) -> Self {
        self.left = left;
        self
    }

    /// One figure.
    #[must_use]
    pub fn row(mut self, what: impl Into<String>, value: impl Display) -> Self {
        self.rows.push((what.into(), value.to_string()));
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
        let head = head.iter().map(ToString::to_string).collect();
        self.tables.push((title.into(), head, rows));
        self
    }

    /// A plot of figures that are in a table too: it is kept, but not printed.
    #[must_use]
    pub fn plot(mut self, plot: Plot) -> Self {
        self.plots.push(plot);
        self
    }

    /// Prints them, and keeps them where that is asked for.
    ///
    /// # Panics
    /// If the directory cannot be written.
    pub fn record(self) {
        for (what, value) in &self.rows {
            eprintln!("figures {}: {what}: {value}", self.part);
        }
        for (title, head, rows) in &self.tables {
            eprintln!("figures {}: {title}", self.part);
            for row in std::iter::once(head).chain(rows) {
                eprintln!("  {}", row.join(" | "));
            }
        }
        let Some(directory) = std::env::var_os("RUN_OPERATOR_FIGURES").map(PathBuf::from) else {
            return;
        };
        std::fs::create_dir_all(&directory).unwrap();
        let tables = self.tables.iter();
        let kept = json!({
            "commit": std::env::var("RUN_OPERATOR_COMMIT").unwrap_or_default(),
            "code": measured::now(&self.part),
            "rows": self.rows,
            "tables": tables.map(|(title, head, rows)| json!({"title": title, "head": head, "rows": rows})).collect::<Vec<_>>(),
            "plots": self.plots,
            "left": self.left,
        });
        let text = serde_json::to_string_pretty(&kept).unwrap() + "\n";
        std::fs::write(directory.join(format!("{}.json", self.part)), text).unwrap();
    }
}
