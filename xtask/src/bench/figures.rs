//! The figures of one part: printed as the Markdown of docs/performance.md, which a person pastes, and plots as SVG.

use std::fmt::Display;
use std::path::Path;

use charts_rs::{BarChart, LineChart};
use serde_json::{Value, json};

use super::error::BenchError;

/// The figures of one part, such as `latency`.
pub(crate) struct Figures {
    part: &'static str,
    rows: Vec<(String, String)>,
    tables: Vec<Table>,
    plots: Vec<Plot>,
}

struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// For each label, a value of each series.
pub(crate) struct Plot {
    /// The title, with the unit of the values.
    pub(crate) title: String,
    pub(crate) kind: PlotKind,
    pub(crate) labels: Vec<String>,
    pub(crate) series: Vec<(String, Vec<f64>)>,
}

/// How a plot shows its values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlotKind {
    Bars,
    Lines,
}

impl Figures {
    pub(crate) const fn new(part: &'static str) -> Self {
        Self {
            part,
            rows: Vec::new(),
            tables: Vec::new(),
            plots: Vec::new(),
        }
    }

    /// One figure.
    pub(crate) fn row(mut self, what: impl Into<String>, value: impl Display) -> Self {
        self.rows.push((what.into(), value.to_string()));
        self
    }

    pub(crate) fn table(
        mut self,
        title: impl Into<String>,
        head: &[&str],
        rows: Vec<Vec<String>>,
    ) -> Self {
        let head = head.iter().map(ToString::to_string).collect();
        let title = title.into();
        self.tables.push(Table { title, head, rows });
        self
    }

    pub(crate) fn plot(mut self, plot: Plot) -> Self {
        self.plots.push(plot);
        self
    }

    /// Prints rows and tables. Where a folder is given, the plots become `PART-1.svg` and so on in it.
    pub(crate) fn publish(&self, plots: Option<&Path>) -> Result<(), BenchError> {
        println!("\n### {}\n\n| | |\n|---|---|", self.part);
        for (what, value) in &self.rows {
            println!("| {what} | {value} |");
        }
        for Table { title, head, rows } in &self.tables {
            println!("\n{title}\n\n| {} |", head.join(" | "));
            println!("|{}", "---|".repeat(head.len()));
            for row in rows {
                println!("| {} |", row.join(" | "));
            }
        }
        for (number, plot) in self.plots.iter().enumerate() {
            let Some(folder) = plots else { break };
            let path = folder.join(format!("{}-{}.svg", self.part, number + 1));
            std::fs::write(&path, plot.svg()?)
                .map_err(|source| BenchError::Plot { path, source })?;
        }
        Ok(())
    }
}

impl Plot {
    fn svg(&self) -> Result<String, BenchError> {
        let options = self.options().to_string();
        let svg = match self.kind {
            PlotKind::Bars => BarChart::from_json(&options).and_then(|chart| chart.svg()),
            PlotKind::Lines => LineChart::from_json(&options).and_then(|chart| chart.svg()),
        };
        Ok(svg.map_err(BenchError::Chart)? + "\n")
    }

    fn options(&self) -> Value {
        let shown = self.kind == PlotKind::Bars;
        let series = self.series.iter();
        let series =
            series.map(|(name, data)| json!({"name": name, "data": data, "label_show": shown}));
        json!({
            "width": 760, "height": 340, "margin": 10,
            "title_text": self.title, "title_align": "left",
            "legend_align": "right", "legend_margin": {"top": 30},
            "series_list": series.collect::<Vec<_>>(),
            "series_smooth": false,
            "x_axis_data": self.labels,
        })
    }
}
