//! The column "what to do" of docs/reasons.md, from the table that `kubectl runop why` prints, too.

use kubectl_runop::remedy;
use run_operator::api::Reason;
use test_support::root;

use super::Generated;
use crate::common::{Outcome, read};

const PAGE: &str = "docs/reasons.md";

/// The page, with the last cell of each reason's row as the code has it.
pub(super) fn page() -> Outcome<Vec<Generated>> {
    let text = read(&root().join(PAGE))?;
    let lines = text
        .lines()
        .map(|line| row(line).unwrap_or_else(|| line.to_owned()) + "\n");
    Ok(vec![(PAGE.into(), lines.collect())])
}

/// The row of a reason, mended; none if the line is no such row.
fn row(line: &str) -> Option<String> {
    let cells = line.strip_prefix("| `")?.strip_suffix(" |")?;
    let (name, _) = cells.split_once('`')?;
    let reason = Reason::named(name)?;
    let (before, _) = cells.rsplit_once(" | ")?;
    Some(format!("| `{before} | {} |", remedy::markdown(reason)))
}
