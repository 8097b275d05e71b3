//! The manifests of `deploy/argocd` and `deploy/flux`: read strictly with the tools' own types.

use super::tools::{asked, file, text_of};

/// Proves: P-argocd, P-recipes
#[tokio::test]
async fn the_manifests_for_flux_and_argo_cd_are_what_these_read() {
    for (tool, path, count) in [
        ("flux", "deploy/flux/runs.yaml", 4),
        ("flux", "deploy/flux/operator.yaml", 2),
        ("argocd", "deploy/argocd/applications.yaml", 2),
    ] {
        let path = file(path).display().to_string();
        let read: usize = asked(tool, &["manifests", &path], "").await;
        assert_eq!(read, count, "{path}");
    }
}

/// No example takes a version that Git doesn't name.
/// Proves: P-recipes
#[test]
fn the_examples_pin_this_version_and_name_a_registry() {
    let version = env!("CARGO_PKG_VERSION");
    for (file, pinned) in [
        ("deploy/flux/operator.yaml", "tag"),
        ("deploy/argocd/applications.yaml", "targetRevision"),
    ] {
        let text = text_of(file);
        assert!(text.contains(&format!("{pinned}: {version}\n")), "{file}");
        assert!(!text.contains("semver") && !text.contains(">="), "{file}");
        assert!(text.contains("registry: registry.example.com\n"), "{file}");
    }
}
