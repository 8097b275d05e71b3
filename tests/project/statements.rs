//! Each statement of the documents, `<a id="P-example"></a>`, is named by the test that proves it, in its doc comment:
//! `/// Proves: P-example`.

use std::collections::BTreeSet;

use crate::files;

const DOCUMENTS: [&str; 2] = ["docs/service.md", "docs/design.md"];
const MARK: &str = " Proves: ";

#[test]
fn every_statement_has_a_test_and_every_test_a_statement() {
    let documents = DOCUMENTS.map(files::text).concat();
    let anchors = documents.split("<a id=\"").skip(1);
    let stated: BTreeSet<&str> = anchors
        .filter_map(|rest| Some(rest.split_once('"')?.0))
        .collect();
    let sources = files::ending("rs").chain(files::ending("go"));
    let sources: String = sources.map(|file| files::text(file)).collect();
    let comments = sources
        .lines()
        .map(|line| line.trim_start().trim_start_matches('/'));
    let marks = comments.filter_map(|line| line.strip_prefix(MARK));
    let proved: BTreeSet<&str> = marks.flat_map(|ids| ids.split(", ")).collect();
    let untested: Vec<_> = stated.difference(&proved).collect();
    assert!(untested.is_empty(), "no test proves {untested:?}");
    let unknown: Vec<_> = proved.difference(&stated).collect();
    assert!(unknown.is_empty(), "{DOCUMENTS:?} don't have {unknown:?}");
}
