//! Argo CD needs every script whole: the parts that two kinds share are in both scripts, and must not differ.

use std::path::Path;

use crate::files;

#[test]
fn workspaces_of_both_kinds_have_the_same_scripts() {
    let folder = "deploy/argocd/resource_customizations/run-operator.dev/";
    let of = |kind: &str| {
        let prefix = format!("{folder}{kind}/");
        let names = files::ALL.iter();
        let scripts: Vec<(String, String)> = names
            .filter(|name| Path::new(name).extension().is_some_and(|e| e == "lua"))
            .filter_map(|name| Some((name.strip_prefix(&prefix)?.to_owned(), files::text(name))))
            .collect();
        scripts
    };
    let scripts = of("Workspace");
    assert!(scripts.len() >= 4, "{scripts:?}");
    assert_eq!(scripts, of("ClusterWorkspace"));
}
