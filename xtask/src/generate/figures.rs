//! The figures of the pages that have some: between a page's marks are the tables and plots of what the last `make
//! prove` or `make bench` counted, a file for each part.

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use test_support::figures::Plot;

use crate::generate::{Generated, Outcome, plots, root};

/// A page with figures.
struct Page {
    path: &'static str,
    /// The folder of its figures' files.
    figures: &'static str,
    /// The command that writes them.
    command: &'static str,
}

const PAGES: [Page; 2] = [
    Page {
        path: "docs/reliability.md",
        figures: "docs/reliability",
        command: "make prove",
    },
    Page {
        path: "docs/performance.md",
        figures: "docs/performance",
        command: "make bench",
    },
];
const END: &str = "<!-- end of figures -->";

/// The format that `test_support::figures` writes.
#[derive(Deserialize)]
struct Figures {
    commit: String,
    rows: Vec<(String, String)>,
    tables: Vec<Table>,
    /// Only measurements have some.
    #[serde(default)]
    plots: Vec<Plot>,
}

#[derive(Deserialize)]
struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// The pages, with their figures as they are kept, and their plots.
pub(super) fn pages() -> Outcome<Vec<Generated>> {
    let mut files = Vec::new();
    for page in &PAGES {
        let text = filled(page, &mut files)?;
        files.push(Generated::new(page.path, text));
    }
    Ok(files)
}

/// The page's text. Its plots are added to the files.
fn filled(page: &Page, files: &mut Vec<Generated>) -> Outcome<String> {
    let Page { path, .. } = page;
    let old = std::fs::read_to_string(root().join(path))?;
    let mut text = String::new();
    let mut rest = old.as_str();
    while let Some((before, marked)) = rest.split_once("<!-- figures: ") {
        let (part, marked) = marked.split_once(" -->").ok_or("a mark without its end")?;
        let (_, after) = marked
            .split_once(END)
            .ok_or_else(|| format!("{path}: the figures of {part} have no end"))?;
        let figures = of(page, part, files)?;
        write!(text, "{before}<!-- figures: {part} -->\n{figures}{END}")?;
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

/// The figures of a part and of its tests, `PART.json` and `PART.*.json`.
fn of(page: &Page, part: &str, files: &mut Vec<Generated>) -> Outcome<String> {
    let Page {
        figures, command, ..
    } = page;
    let folder = root().join(figures);
    if !folder.exists() {
        return Ok(format!("\nNot measured yet: `{command}` does it.\n\n"));
    }
    let mut names: Vec<_> = std::fs::read_dir(&folder)?
        .filter_map(|file| file.ok()?.file_name().into_string().ok())
        .filter(|name| name.split('.').next() == Some(part) && is_json(name))
        .collect();
    names.sort();
    if names.is_empty() {
        return Err(format!("{figures}/{part}.json is missing: run `{command}`").into());
    }
    let mut text = String::new();
    for name in names {
        let kept = std::fs::read_to_string(folder.join(&name))?;
        let kept: Figures = serde_json::from_str(&kept)?;
        show(&kept, &mut text)?;
        for (number, plot) in kept.plots.iter().enumerate() {
            let file = format!(
                "{figures}/{}-{}.svg",
                name.trim_end_matches(".json"),
                number + 1
            );
            let link = file.trim_start_matches("docs/");
            writeln!(text, "![{}]({link})\n", plot.title)?;
            files.push(Generated::new(file, plots::svg(plot)?));
        }
    }
    Ok(text)
}

fn is_json(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|e| e == "json")
}

fn show(figures: &Figures, text: &mut String) -> Outcome<()> {
    writeln!(text, "\nMeasured on commit {}.\n", figures.commit)?;
    if !figures.rows.is_empty() {
        writeln!(text, "| | |\n|---|---|")?;
        for (what, value) in &figures.rows {
            writeln!(text, "| {} | {} |", cell(what), cell(value))?;
        }
        writeln!(text)?;
    }
    for table in &figures.tables {
        writeln!(text, "{}\n", table.title)?;
        line(text, &table.head)?;
        writeln!(text, "|{}", "---|".repeat(table.head.len()))?;
        for row in &table.rows {
            line(text, row)?;
        }
        writeln!(text)?;
    }
    Ok(())
}

fn line(text: &mut String, cells: &[String]) -> Outcome<()> {
    let cells: Vec<_> = cells.iter().map(|c| cell(c)).collect();
    writeln!(text, "| {} |", cells.join(" | "))?;
    Ok(())
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
