//! What was tried before of this very code, perhaps on another machine: the kept figures say so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use test_support::figures::Kept;
use test_support::measured;
use test_support::root;
use test_support::source::breakages::Breakage;

use super::results::{self, ResultsError};
use super::trial::{Outcome, Trial};

const FILE: &str = "docs/reliability/breakages.json";

/// Puts what was noticed into the folder of the results, unless it was of other code.
pub(super) fn take_over(all: &[Breakage], folder: &Path) -> Result<(), ResultsError> {
    let Some(kept) = results::read::<Kept>(&root().join(FILE))? else {
        return Ok(());
    };
    if !measured::changed("breakages", &kept.code).is_empty() {
        return Ok(());
    }
    let rows = kept.tables.iter().flat_map(|table| &table.rows);
    let noticed: BTreeMap<_, _> = rows.filter_map(|row| row_of(row)).collect();
    for breakage in all {
        let earlier = noticed.get(&(breakage.id.as_str(), breakage.broken.as_str()));
        if let (Some((outcome, seconds)), None) = (earlier, Trial::kept(folder, breakage)?) {
            Trial::new(breakage, outcome.clone(), *seconds).keep(folder, breakage)?;
        }
    }
    Ok(())
}

type Row<'a> = ((&'a str, &'a str), (Outcome, u64));

/// A row of the table, if it names tests that have failed.
fn row_of(row: &[String]) -> Option<Row<'_>> {
    let [id, broken, failed, seconds] = row else {
        return None;
    };
    let name = |cell: &str| Some(cell.strip_prefix('`')?.strip_suffix('`')?.to_owned());
    let tests: BTreeSet<String> = failed.split(", ").map(name).collect::<Option<_>>()?;
    let of = tests.len();
    let outcome = Outcome::Failed { tests, of };
    Some(((id, broken), (outcome, seconds.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_row_that_names_tests_counts_as_tried() {
        let row = |failed: &str| -> Vec<String> {
            ["R1", "It is broken.", failed, "7"]
                .map(str::to_owned)
                .to_vec()
        };
        let noticed = row("`policy::a`, `e2e::b::c`");
        let (named, (outcome, seconds)) = row_of(&noticed).unwrap();
        assert_eq!((named, seconds), (("R1", "It is broken."), 7));
        let tests = ["policy::a", "e2e::b::c"].map(str::to_owned).into();
        assert_eq!(outcome, Outcome::Failed { tests, of: 2 });
        for other in ["**not tried**", "**none** of 3", "they did not end", ""] {
            assert_eq!(row_of(&row(other)), None, "{other}");
        }
    }
}
