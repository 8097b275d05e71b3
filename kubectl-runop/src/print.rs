//! Results on standard output: objects as kubectl prints them, and tables.

use std::io::{self, Write};

use serde_json::Value;

use crate::cli::runs::ObjectFormat;

use super::exit::RunsError;
use super::object::Seen;

/// Spaces between columns, as in kubectl's tables.
const GAP: usize = 3;

/// Writes to standard output. A reader that closes early, such as `head`, is no error.
pub(super) fn out(text: &str) -> Result<(), RunsError> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(RunsError::Write(error)),
        _ => Ok(()),
    }
}

/// Prints an object in a format, or in none the line that says what became of it.
pub(super) fn object(
    run: &Seen,
    format: Option<ObjectFormat>,
    became: &str,
) -> Result<(), RunsError> {
    out(&match format {
        None => format!("{} {became}\n", run.reference()),
        Some(ObjectFormat::Name) => format!("{}\n", run.reference()),
        Some(ObjectFormat::Json) => json(run.text()),
        Some(ObjectFormat::Yaml) => yaml(run.text())?,
    })
}

/// JSON with kubectl's indentation. What is nested too deeply to be laid out is printed as it came.
pub(super) fn json(text: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return format!("{text}\n");
    };
    let mut pretty = Vec::new();
    let indent = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut pretty, indent);
    match serde::Serialize::serialize(&value, &mut serializer) {
        Ok(()) => format!("{}\n", String::from_utf8_lossy(&pretty)),
        Err(_) => format!("{text}\n"),
    }
}

pub(super) fn yaml(text: &str) -> Result<String, RunsError> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        RunsError::Usage(format!("no YAML can be made of it ({error}); use -o json"))
    })?;
    serde_saphyr::to_string(&value).map_err(|error| RunsError::Usage(error.to_string()))
}

/// Lines of columns that are as wide as their widest cell.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths);
        let cells = cells.map(|(cell, width)| format!("{cell:<0$}", width + GAP));
        let line = cells.collect::<Vec<_>>().concat();
        format!("{}\n", line.trim_end())
    });
    lines.collect::<Vec<_>>().concat()
}
