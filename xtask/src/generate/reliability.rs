//! The figures of docs/reliability.md: between its marks are tables of the counts of the last `make prove`, a
//! file for each proof in docs/reliability/.

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;

use crate::generate::{Generated, Outcome, root};

const PAGE: &str = "docs/reliability.md";
const FIGURES: &str = "docs/reliability";
const END: &str = "<!-- end of figures -->";

/// The format that `test_support::figures` writes.
#[derive(Deserialize)]
struct Figures {
    commit: String,
    rows: Vec<(String, String)>,
    tables: Vec<Table>,
}

#[derive(Deserialize)]
struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// The page, with its figures as they are kept.
pub(super) fn page() -> Outcome<Vec<Generated>> {
    let old = std::fs::read_to_string(root().join(PAGE))?;
    let mut page = String::new();
    let mut rest = old.as_str();
    while let Some((before, marked)) = rest.split_once("<!-- figures: ") {
        let (part, marked) = marked.split_once(" -->").ok_or("a mark without its end")?;
        let (_, after) = marked
            .split_once(END)
            .ok_or_else(|| format!("{PAGE}: the figures of {part} have no end"))?;
        let figures = of(part)?;
        write!(page, "{before}<!-- figures: {part} -->\n{figures}{END}")?;
        rest = after;
    }
    page.push_str(rest);
    Ok(vec![Generated::new(PAGE, page)])
}

/// The figures of a part and of its tests, `PART.json` and `PART.*.json`.
fn of(part: &str) -> Outcome<String> {
    let mut names: Vec<_> = std::fs::read_dir(root().join(FIGURES))?
        .filter_map(|file| file.ok()?.file_name().into_string().ok())
        .filter(|name| name.split('.').next() == Some(part) && is_json(name))
        .collect();
    names.sort();
    if names.is_empty() {
        return Err(format!("{FIGURES}/{part}.json is missing: run `make prove`").into());
    }
    let mut text = String::new();
    for name in names {
        let kept = std::fs::read_to_string(root().join(FIGURES).join(&name))?;
        show(&serde_json::from_str(&kept)?, &mut text)?;
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
