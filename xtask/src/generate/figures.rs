//! The figures of the pages that have some: between a page's marks are the tables and plots of what the last `make
//! prove` or `make bench` counted, a file for each part.

mod details;

use std::fmt::Write as _;

use test_support::figures::Kept;
use test_support::measured;

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
/// The mark of a table with a row for each part, whose figures have pages of their own.
const SUMMARY: &str = "summary";
const END: &str = "<!-- end of figures -->";

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
        let figures = match part {
            SUMMARY => details::summary(page, files)?,
            part => of(page, part, files)?,
        };
        write!(text, "{before}<!-- figures: {part} -->\n{figures}{END}")?;
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

/// The figures of a part and of its tests, with their plots.
fn of(page: &Page, part: &str, files: &mut Vec<Generated>) -> Outcome<String> {
    let Page {
        figures, command, ..
    } = page;
    let all = kept(page, part)?;
    if all.is_empty() {
        return Ok(format!("\nNot measured yet: `{command}` does it.\n\n"));
    }
    let mut text = String::new();
    for (name, kept) in all {
        show(&name, &kept, &mut text)?;
        for (number, plot) in kept.plots.iter().enumerate() {
            let file = format!("{figures}/{name}-{}.svg", number + 1);
            let link = file.trim_start_matches("docs/");
            writeln!(text, "![{}]({link})\n", plot.title)?;
            files.push(Generated::new(file, plots::svg(plot)?));
        }
    }
    Ok(text)
}

/// Whether the figures of a part of `make prove` are there, complete, and of the code as it is now.
pub(crate) fn are_current(part: &str) -> Outcome<bool> {
    let [proofs, _] = &PAGES;
    let all = kept(proofs, part)?;
    let current = |(name, kept): &(String, Kept)| {
        kept.left == 0 && measured::changed(name, &kept.code).is_empty()
    };
    Ok(!all.is_empty() && all.iter().all(current))
}

/// The kept figures of a part, `PART.json`, and of its tests, `PART.*.json`, by name; none if it was not measured yet.
fn kept(page: &Page, part: &str) -> Outcome<Vec<(String, Kept)>> {
    let folder = root().join(page.figures);
    let mut names: Vec<_> = std::fs::read_dir(&folder)?
        .filter_map(|file| file.ok()?.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".json")?.to_owned()))
        .filter(|name| name.split('.').next() == Some(part))
        .collect();
    names.sort();
    let mut all = Vec::new();
    for name in names {
        let text = std::fs::read_to_string(folder.join(format!("{name}.json")))?;
        all.push((name, serde_json::from_str(&text)?));
    }
    Ok(all)
}

/// The commit of the figures, and whether they are of the code as it is now.
fn measured_on(name: &str, figures: &Kept) -> String {
    let changed = measured::changed(name, &figures.code);
    let commit = &figures.commit;
    if changed.is_empty() {
        let left = match figures.left {
            0 => String::new(),
            left => format!(" **{left} are still to be tried.**"),
        };
        format!("Measured on commit {commit}; the code is the same.{left}")
    } else {
        let changed = changed.join(", ");
        format!("**Measured on other code**, commit {commit}. Changed since: {changed}.")
    }
}

fn show(name: &str, figures: &Kept, text: &mut String) -> Outcome<()> {
    writeln!(text, "\n{}\n", measured_on(name, figures))?;
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
