//! The figures of one part, printed as the Markdown of docs/performance.md.

use std::borrow::Borrow;
use std::fmt::Display;
use std::time::Duration;

/// A figure, and what it is of.
pub(super) type Row = (String, String);

/// The figures of one part, such as `latency`.
pub(super) struct Figures {
    part: &'static str,
    rows: Vec<Row>,
    tables: Vec<String>,
}

impl Figures {
    pub(super) const fn new(part: &'static str) -> Self {
        Self {
            part,
            rows: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// One figure.
    pub(super) fn row(mut self, what: &str, value: impl Display) -> Self {
        self.rows.push((what.to_owned(), value.to_string()));
        self
    }

    pub(super) fn table(mut self, title: &str, head: &[&str], rows: &[Vec<String>]) -> Self {
        let mut lines = vec![line(head), format!("|{}", "---|".repeat(head.len()))];
        lines.extend(rows.iter().map(|row| line(row)));
        let lines = lines.join("\n");
        self.tables.push(format!("{title}\n\n{lines}"));
        self
    }

    /// A table with a column for each case. A row that is new in a later column follows the others; one that is less
    /// than 0.005 in each is left out.
    pub(super) fn columns(self, title: &str, columns: &[Column]) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in columns.iter().flat_map(|column| &column.rows) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let row = |name: &&str| {
            let of = |column: &Column| {
                let found = column.rows.iter().find(|(what, _)| what == name);
                found.map_or("-", |(_, value)| value).to_owned()
            };
            let cells = columns.iter().map(of);
            std::iter::once((*name).to_owned()).chain(cells).collect()
        };
        let rows = names.iter().map(row);
        let some = |row: &Vec<String>| row[1..].iter().any(|cell| cell != "-" && cell != "0.00");
        let rows: Vec<Vec<String>> = rows.filter(some).collect();
        let titles = columns.iter().map(|column| column.title.as_str());
        let head: Vec<&str> = std::iter::once("").chain(titles).collect();
        self.table(title, &head, &rows)
    }

    pub(super) fn print(&self) {
        println!("\n### {}\n\n| | |\n|---|---|", self.part);
        for (what, value) in &self.rows {
            println!("| {what} | {value} |");
        }
        for table in &self.tables {
            println!("\n{table}");
        }
    }
}

fn line(cells: &[impl Borrow<str>]) -> String {
    format!("| {} |", cells.join(" | "))
}

/// What was measured of one case, in the order of its rows.
pub(super) struct Column {
    title: String,
    rows: Vec<Row>,
}

impl Column {
    /// A case without values.
    pub(super) fn new(title: impl Into<String>) -> Self {
        let title = title.into();
        let rows = Vec::new();
        Self { title, rows }
    }

    /// One value.
    pub(super) fn cell(mut self, what: &str, value: impl Display) -> Self {
        self.rows.push((what.to_owned(), value.to_string()));
        self
    }

    /// Several.
    pub(super) fn rows(mut self, rows: impl IntoIterator<Item = Row>) -> Self {
        self.rows.extend(rows);
        self
    }
}

/// How times are spread, in ms.
pub(super) fn spread(what: &str, mut times: Vec<Duration>) -> Vec<Row> {
    times.sort_unstable();
    let of = |hundredths: usize| {
        let time = times.get(times.len() * hundredths / 100).or(times.last())?;
        Some((time.as_secs_f64() * 10_000.0).round() / 10.0)
    };
    let (Some(p50), Some(p99), Some(longest)) = (of(50), of(99), of(100)) else {
        return Vec::new();
    };
    let what = format!("{what}: p50, p99, longest");
    vec![(what, format!("{p50}, {p99}, {longest}"))]
}

/// Seconds.
pub(super) fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64())
}

/// A share.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Time on a core as a share of another time.
pub(super) fn of_a_core(cpu: Duration, of: Duration) -> String {
    percent(cpu.as_secs_f64() / of.as_secs_f64())
}

/// Time on a core for each of so many, in milliseconds.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(super) fn millis_each(cpu: Duration, count: usize) -> String {
    format!("{:.2}", cpu.as_secs_f64() * 1000.0 / count.max(1) as f64)
}

/// Bytes as MiB.
#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
pub(super) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
