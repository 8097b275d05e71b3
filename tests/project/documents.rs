//! Files that the documents name exist, and each document is a chapter of the book. `make book` follows the links.

use crate::files;

/// Folders whose files are named in backticks by their path from the root.
const FOLDERS: [&str; 11] = [
    "src/",
    "tests/",
    "xtask/",
    "docs/",
    "contract/",
    "crds/",
    "charts/",
    "deploy/",
    "tools/",
    "fuzz/",
    ".ci/",
];

#[test]
fn every_file_that_a_document_names_exists() {
    let mut missing = Vec::new();
    // The changelog speaks of earlier versions.
    for file in files::ending("md").filter(|file| *file != "CHANGELOG.md") {
        for span in files::text(file).split('`').skip(1).step_by(2) {
            let path = FOLDERS.iter().any(|folder| span.starts_with(folder))
                && !span.contains(['*', '{', ' ', '<']);
            if path && !test_support::root().join(span).exists() {
                missing.push(format!("{file}: {span}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_document_is_a_chapter_of_the_book() {
    let summary = files::text("docs/SUMMARY.md");
    for file in files::ending("md") {
        let Some(name) = file
            .strip_prefix("docs/")
            .filter(|name| *name != "SUMMARY.md")
        else {
            continue;
        };
        assert_eq!(
            summary.matches(&format!("]({name})")).count(),
            1,
            "docs/SUMMARY.md and {file}"
        );
    }
}

/// Argo CD needs every script whole: what both kinds of Workspaces share must not differ.
#[test]
fn workspaces_of_both_kinds_have_the_same_scripts() {
    let folder = "deploy/argocd/resource_customizations/run-operator.dev";
    let of = |kind: &str| {
        let folder = format!("{folder}/{kind}");
        let scripts = files::below(&folder, "lua").into_iter();
        let scripts = scripts.map(|file| (file[folder.len()..].to_owned(), files::text(&file)));
        scripts.collect::<Vec<_>>()
    };
    let scripts = of("Workspace");
    assert!(scripts.len() >= 4, "{scripts:?}");
    assert_eq!(scripts, of("ClusterWorkspace"));
}
