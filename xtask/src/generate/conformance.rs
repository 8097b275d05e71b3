//! `docs/conformance.md`, from the statements of the documents and the marks at the tests.

use std::fmt::Write as _;
use std::path::Path;

use crate::generate::{Generated, Outcome};
use test_support::source::proofs::{self, Proved};
use test_support::source::suites::TESTS;

const HEAD: &str = "\
<!-- Written by `make generate` from the documents and the marks at the tests. Do not edit. -->
# Conformance

Every statement of [service.md](service.md) and every promise of [design.md](design.md), with the tests that prove it.
An id leads to the whole statement; here stands its first sentence, with `…` where more follow.

A test is named `suite::module::name`: the suite is the name in `Cargo.toml`, `unit` the library's own tests, the rest
what `cargo test --test SUITE -- --list` prints. One with a feature is compiled with it alone: `make prove-bounded` runs
it. No ignored test is listed. \"No test:\" says why there is none, or what the tests leave out.

[What was broken](reliability/breakages.md) to see that these tests fail, and which did, is a page of its own.

This page is generated. To add a test to a statement, write a mark directly above the test's attributes, such as
`// Proves: R1, P-at-most-one`, and run `make generate`. Reasons for having no test are in
`tests/project/untested.yaml`.
";

/// The page.
pub(crate) fn page() -> Outcome<Vec<Generated>> {
    let mut page = HEAD.to_owned();
    let mut headings: Vec<String> = Vec::new();
    let all = proofs::all().map_err(|problems| {
        eprintln!("{problems}");
        "docs/conformance.md can't be written: see above"
    })?;
    for proved in all {
        let above = &proved.statement.headings;
        for (level, heading) in above.iter().enumerate() {
            if headings.get(..=level) != above.get(..=level) {
                write!(page, "\n#{heading}\n")?;
            }
        }
        headings.clone_from(above);
        row(&mut page, &proved)?;
    }
    Ok(vec![Generated::new("docs/conformance.md", page)])
}

fn row(page: &mut String, proved: &Proved) -> Outcome<()> {
    let statement = &proved.statement;
    let document = Path::new(&statement.document).file_name();
    let document = document.unwrap_or_default().to_string_lossy();
    let (sentence, more) = statement.first_sentence();
    // A link within the document leads there from here too.
    let sentence = sentence.replace("](#", &format!("]({document}#"));
    let id = &statement.id;
    let more = if more { " …" } else { "" };
    writeln!(page, "- [**{id}**]({document}#{id}) {sentence}{more}")?;
    for test in &proved.tests {
        let found = TESTS.iter().find(|known| known.name == *test);
        let feature = found.and_then(|test| test.feature.as_deref());
        let feature = feature.map_or_else(String::new, |name| format!(" (feature `{name}`)"));
        writeln!(page, "  - `{test}`{feature}")?;
    }
    if let Some(why) = &proved.untested {
        writeln!(page, "  - No test: {why}")?;
    }
    Ok(())
}
