//! Results on standard output: objects, reports, tables. Progress on standard error, where somebody looks on.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};

use anstyle::{AnsiColor, Style};
use serde_json::Value;

use run_operator::checks::Verdict;
use run_operator::decide::truncate::escaped;

use crate::args::{ListFormat, ObjectFormat, ReportFormat};
use crate::cluster::Cluster;
use crate::error::ToolError;
use crate::explain::Severity;
use crate::run::Run;

/// Spaces between columns, as in kubectl's tables.
const GAP: usize = 3;

/// Writes to standard output, without colours where that is no terminal or the user wants none. A reader that closes
/// early, such as `head`, is no error.
pub(crate) fn out(text: &str) -> Result<(), ToolError> {
    write(anstream::stdout().lock(), text)
}

/// The same of objects and documents: with each byte, also where colours and control characters are left out.
pub(crate) fn exact(text: &str) -> Result<(), ToolError> {
    write(io::stdout().lock(), text)
}

fn write(mut stdout: impl io::Write, text: &str) -> Result<(), ToolError> {
    let written = stdout.write_all(text.as_bytes());
    match written.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(ToolError::Write("the output".to_owned(), error))
        }
        _ => Ok(()),
    }
}

/// A line as a terminal may have it, whatever an object says: a status has texts of the service.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escaped(text, usize::MAX)
}

/// Such lines.
pub(crate) fn lines(lines: &[String]) -> String {
    lines.iter().map(|text| line(text) + "\n").collect()
}

/// Says what is being done, to a person who waits for it.
pub(crate) fn progress(what: &str) {
    if io::stderr().is_terminal() {
        eprintln!("{what} ...");
    }
}

/// Prints a Run in a format, or in none the line that says what became of it.
pub(crate) fn object(
    run: &Run,
    format: Option<ObjectFormat>,
    became: &str,
) -> Result<(), ToolError> {
    one(&run.reference(), run.text(), format, became)
}

/// Prints an object, by its kind and name and as it came.
pub(crate) fn one(
    reference: &str,
    text: &str,
    format: Option<ObjectFormat>,
    became: &str,
) -> Result<(), ToolError> {
    exact(&match format {
        None => format!("{reference} {became}\n"),
        Some(ObjectFormat::Name) => format!("{reference}\n"),
        Some(ObjectFormat::Json) => json(text),
        Some(ObjectFormat::Yaml) => yaml(text)?,
    })
}

/// Objects as kubectl prints several: a `List` of the core API, in their order.
pub(crate) fn several(
    objects: &[(String, &str)],
    format: ObjectFormat,
) -> Result<String, ToolError> {
    let texts: Vec<&str> = objects.iter().map(|(_, text)| *text).collect();
    let texts = texts.join(",");
    let list = format!(
        r#"{{"apiVersion":"v1","kind":"List","metadata":{{"resourceVersion":""}},"items":[{texts}]}}"#
    );
    Ok(match format {
        ObjectFormat::Json => json(&list),
        ObjectFormat::Yaml => yaml(&list)?,
        ObjectFormat::Name => {
            let names = objects
                .iter()
                .map(|(reference, _)| format!("{reference}\n"));
            names.collect()
        }
    })
}

/// What is nested too deeply to be laid out is printed as it came.
fn json(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(value) => format!("{value:#}\n"),
        Err(_) => format!("{text}\n"),
    }
}

fn yaml(text: &str) -> Result<String, ToolError> {
    let value: Result<Value, _> = serde_json::from_str(text);
    let value = value.map_err(|error| {
        ToolError::usage(format!("no YAML can be made of it ({error}); use -o json"))
    })?;
    yaml_of(&value)
}

fn yaml_of(value: &Value) -> Result<String, ToolError> {
    serde_saphyr::to_string(value).map_err(|error| ToolError::usage(error.to_string()))
}

/// Prints a report for people, or the same as a document.
pub(crate) fn report(
    format: ReportFormat,
    text: impl FnOnce() -> String,
    document: &Value,
) -> Result<(), ToolError> {
    match format {
        ReportFormat::Text => out(&text()),
        ReportFormat::Json => exact(&format!("{document:#}\n")),
        ReportFormat::Yaml => exact(&yaml_of(document)?),
    }
}

/// A report of checks with the word that begins each finding's line in a colour.
pub(crate) fn verdicts(report: &str) -> String {
    let colours = [
        (Verdict::Fail, AnsiColor::Red),
        (Verdict::Warn, AnsiColor::Yellow),
        (Verdict::Ok, AnsiColor::Green),
    ];
    let mut text = String::new();
    for line in report.split_inclusive('\n') {
        let found = colours.iter().find_map(|(verdict, colour)| {
            let word = verdict.to_string();
            let rest = line.strip_prefix(&word)?;
            let style = colour.on_default();
            rest.starts_with(' ')
                .then(|| format!("{style}{word}{style:#}{rest}"))
        });
        text.push_str(found.as_deref().unwrap_or(line));
    }
    text
}

/// The style of what is as urgent as this.
pub(crate) fn style(severity: Severity) -> Style {
    match severity {
        Severity::NeedsPerson | Severity::Failed => AnsiColor::Red.on_default(),
        Severity::Waits | Severity::Stale => AnsiColor::Yellow.on_default(),
        Severity::AtWork | Severity::Ended => Style::new(),
    }
}

/// What a command lists, and how.
pub(crate) struct List<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) all_namespaces: bool,
    pub(crate) format: Option<ListFormat>,
}

impl List<'_> {
    /// Prints the objects in their own format, or that there are none, as kubectl does. False: a table shows them.
    pub(crate) fn without_table(&self, objects: &[(String, &str)]) -> Result<bool, ToolError> {
        if let Some(format) = self.format.and_then(ListFormat::of_objects) {
            exact(&several(objects, format)?)?;
        } else if !objects.is_empty() {
            return Ok(false);
        } else if self.all_namespaces {
            eprintln!("No resources found");
        } else {
            eprintln!(
                "No resources found in {} namespace.",
                self.cluster.namespace
            );
        }
        Ok(true)
    }

    /// A table of objects: for each its style, its namespace and its cells, of which those of `wide` are shown by
    /// `-o wide` alone.
    pub(crate) fn table<'a>(
        &self,
        heads: &[&str],
        wide: &[&str],
        rows: impl Iterator<Item = (Style, &'a str, Vec<String>)>,
    ) -> String {
        let wide = if self.format.is_some() { wide } else { &[] };
        listed(&[heads, wide].concat(), rows, self.all_namespaces)
    }
}

/// Heads, and as many cells of each row.
fn listed<'a>(
    heads: &[&str],
    rows: impl Iterator<Item = (Style, &'a str, Vec<String>)>,
    all_namespaces: bool,
) -> String {
    let columns = heads.len();
    let heads = heads.iter().map(|head| (*head).to_owned()).collect();
    let all = [(Style::new(), "NAMESPACE", heads)].into_iter().chain(rows);
    let rows: Vec<(Style, Vec<String>)> = all
        .map(|(style, namespace, cells)| {
            let namespace = all_namespaces.then(|| namespace.to_owned());
            let cells = namespace.into_iter().chain(cells.into_iter().take(columns));
            (style, cells.map(|cell| line(&cell).into_owned()).collect())
        })
        .collect();
    table(&rows)
}

/// Lines of columns that are as wide as their widest cell, each in its style.
fn table(rows: &[(Style, Vec<String>)]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for (_, row) in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for (style, row) in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<0$}", width + GAP);
        }
        let _ = writeln!(text, "{style}{}{style:#}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Proves: K-output
    #[test]
    fn several_objects_are_a_list_as_kubectl_prints_it() {
        let objects = [
            ("run/a".to_owned(), r#"{"n":1}"#),
            ("run/b".to_owned(), r#"{"n":"no"}"#),
        ];
        let printed = |format| several(&objects, format).unwrap();
        assert_eq!(printed(ObjectFormat::Name), "run/a\nrun/b\n");
        let expected = json!({
            "apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""},
            "items": [{"n": 1}, {"n": "no"}],
        });
        let json: Value = serde_json::from_str(&printed(ObjectFormat::Json)).unwrap();
        assert_eq!(json, expected);
        let yaml: Value = serde_saphyr::from_str(&printed(ObjectFormat::Yaml)).unwrap();
        assert_eq!(yaml, expected);
    }

    /// Proves: K-output
    #[test]
    fn nothing_that_a_status_says_controls_a_terminal() {
        let said = "a\u{1b}[2J\u{9b}m\nb".to_owned();
        let shown = "a\\u{1b}[2J\\u{9b}m\\u{a}b";
        assert_eq!(
            lines(&[said.clone(), "é".to_owned()]),
            format!("{shown}\né\n")
        );
        let rows = [(Style::new(), "team", vec![said])].into_iter();
        assert_eq!(listed(&["STATE"], rows, false), format!("STATE\n{shown}\n"));
    }

    /// Proves: K-output
    #[test]
    fn colours_change_no_text_and_no_column() {
        let cells = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let rows = |style| {
            [
                (Style::new(), cells(["NAME", "AGE"])),
                (style, cells(["a", "1s"])),
            ]
        };
        let plain = table(&rows(Style::new()));
        assert_eq!(plain, "NAME   AGE\na      1s\n");
        let red = table(&rows(style(Severity::Failed)));
        assert_ne!(red, plain);
        assert_eq!(anstream::adapter::strip_str(&red).to_string(), plain);
        let report = "FAIL  one\nWARN  two\nok    three\nnote  four\nok\nFailed: 1.\n";
        let coloured = verdicts(report);
        assert_eq!(coloured.matches("\u{1b}[0m").count(), 3, "{coloured:?}");
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), report);
    }
}
