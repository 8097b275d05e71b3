//! The figures that a script has counted: `cargo xtask figures PART`, with lines of cells and tabs between them; and
//! whether those of a part are of today's code.

use std::io::{self, BufRead as _};

use clap::Args;
use test_support::figures::Figures;

use crate::generate::figures;

#[derive(Args)]
#[command(after_help = "\
The lines of standard input, with tabs between the cells:
  row    WHAT  VALUE
  table  TITLE
  head   CELL…          of the table before
  cells  CELL…          a row of it")]
pub(crate) struct Options {
    /// The part, such as `mutants`.
    part: String,
    /// Reads nothing, and fails if the part's figures in docs/reliability are not there or of other code.
    #[arg(long)]
    current: bool,
}

/// A line that can't be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FiguresError {
    #[error("failed to read standard input")]
    Read(#[from] io::Error),
    #[error("line {line} is no row, table, head or cells: {text}")]
    Line { line: usize, text: String },
    #[error("failed to read the kept figures")]
    Kept(#[source] Box<dyn std::error::Error>),
    #[error("those of {0} in docs/reliability are not there, or of other code")]
    NotCurrent(String),
}

/// A table while its lines come.
#[derive(Default)]
struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Prints the figures, and keeps them where `RUN_OPERATOR_FIGURES` names a folder.
pub(crate) fn run(options: &Options) -> Result<(), FiguresError> {
    if options.current {
        return if figures::are_current(&options.part).map_err(FiguresError::Kept)? {
            Ok(())
        } else {
            Err(FiguresError::NotCurrent(options.part.clone()))
        };
    }
    let mut figures = Figures::new(&options.part);
    let mut table: Option<Table> = None;
    for (number, line) in io::stdin().lock().lines().enumerate() {
        let line = line?;
        let cells: Vec<&str> = line.split('\t').collect();
        match (cells.as_slice(), &mut table) {
            (["row", what, value], _) => figures = figures.row(*what, value),
            (["table", title], _) => {
                figures = with(figures, table.take());
                table = Some(Table {
                    title: (*title).to_owned(),
                    ..Table::default()
                });
            }
            (["head", cells @ ..], Some(table)) => table.head = owned(cells),
            (["cells", cells @ ..], Some(table)) => table.rows.push(owned(cells)),
            _ => {
                let line = number + 1;
                let text = cells.join(" | ");
                return Err(FiguresError::Line { line, text });
            }
        }
    }
    with(figures, table).record();
    Ok(())
}

fn with(figures: Figures, table: Option<Table>) -> Figures {
    let Some(Table { title, head, rows }) = table else {
        return figures;
    };
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    figures.table(title, &head, rows)
}

fn owned(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}
