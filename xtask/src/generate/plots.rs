//! Plots of figures, as SVG.

use charts_rs::{BarChart, LineChart};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::generate::Outcome;

/// The format that `test_support::figures` writes.
#[derive(Deserialize)]
pub(super) struct Plot {
    title: String,
    kind: Kind,
    labels: Vec<String>,
    series: Vec<(String, Vec<f64>)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Bars,
    Lines,
}

impl Plot {
    /// What it shows, in words.
    pub(super) fn title(&self) -> &str {
        &self.title
    }

    /// The image.
    pub(super) fn svg(&self) -> Outcome<String> {
        let options = self.options().to_string();
        let svg = match self.kind {
            Kind::Bars => BarChart::from_json(&options)?.svg()?,
            Kind::Lines => LineChart::from_json(&options)?.svg()?,
        };
        Ok(svg + "\n")
    }

    fn options(&self) -> Value {
        let series = self.series.iter().map(|(name, data)| {
            json!({"name": name, "data": data, "label_show": self.kind == Kind::Bars})
        });
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
