//! Results on standard output: objects, reports, tables.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use serde_json::Value;

use crate::args::ObjectFormat;
use crate::error::ToolError;
use crate::run::Run;

/// Spaces between columns, as in kubectl's tables.
const GAP: usize = 3;

/// Writes to standard output. A reader that closes early, such as `head`, is no error.
pub(crate) fn out(text: &str) -> Result<(), ToolError> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    match written.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(ToolError::Write("the output".to_owned(), error))
        }
        _ => Ok(()),
    }
}

/// Prints an object in a format, or in none the line that says what became of it.
pub(crate) fn object(
    run: &Run,
    format: Option<ObjectFormat>,
    became: &str,
) -> Result<(), ToolError> {
    out(&match format {
        None => format!("{} {became}\n", run.reference()),
        Some(ObjectFormat::Name) => format!("{}\n", run.reference()),
        Some(ObjectFormat::Json) => match serde_json::from_str::<Value>(run.text()) {
            Ok(value) => format!("{value:#}\n"),
            // What is nested too deeply to be laid out is printed as it came.
            Err(_) => format!("{}\n", run.text()),
        },
        Some(ObjectFormat::Yaml) => {
            let value: Result<Value, _> = serde_json::from_str(run.text());
            let value = value.map_err(|error| {
                ToolError::usage(format!("no YAML can be made of it ({error}); use -o json"))
            })?;
            serde_saphyr::to_string(&value).map_err(|error| ToolError::usage(error.to_string()))?
        }
    })
}

/// Lines of columns that are as wide as their widest cell.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<0$}", width + GAP);
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}
