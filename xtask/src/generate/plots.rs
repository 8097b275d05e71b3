//! Plots of figures, as SVG.

use charts_rs::{BarChart, LineChart};
use serde_json::{Value, json};
use test_support::figures::{Plot, PlotKind};

use crate::generate::Outcome;

/// The image.
pub(super) fn svg(plot: &Plot) -> Outcome<String> {
    let options = options(plot).to_string();
    let svg = match plot.kind {
        PlotKind::Bars => BarChart::from_json(&options)?.svg()?,
        PlotKind::Lines => LineChart::from_json(&options)?.svg()?,
    };
    Ok(svg + "\n")
}

fn options(plot: &Plot) -> Value {
    let shown = plot.kind == PlotKind::Bars;
    let series = plot.series.iter();
    let series =
        series.map(|(name, data)| json!({"name": name, "data": data, "label_show": shown}));
    json!({
        "width": 760, "height": 340, "margin": 10,
        "title_text": plot.title, "title_align": "left",
        "legend_align": "right", "legend_margin": {"top": 30},
        "series_list": series.collect::<Vec<_>>(),
        "series_smooth": false,
        "x_axis_data": plot.labels,
    })
}
