//! The figures of one part, printed as the Markdown of docs/performance.md.

use std::fmt::Display;

/// The figures of one part, such as `latency`.
pub(crate) struct Figures {
    part: &'static str,
    rows: Vec<(String, String)>,
    tables: Vec<Table>,
}

struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Figures {
    pub(crate) const fn new(part: &'static str) -> Self {
        Self {
            part,
            rows: Vec::new(),
            tables: Vec::new(),
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

    pub(crate) fn print(&self) {
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
    }
}
