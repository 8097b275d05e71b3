//! The manifests of `deploy/argocd`, `deploy/flux` and `deploy/examples/gitops`: read strictly with the tools' own
//! types, and by the API server.

use serde_json::Value;
use test_support::files;

use super::tools::{asked, file, text_of};
use crate::support::World;

/// Proves: P-flux, I-remedy
#[tokio::test]
async fn the_manifests_for_flux_and_argo_cd_are_what_these_read() {
    let path = |name: &str| file(name).display().to_string();
    let (runs, operator) = (
        path("deploy/flux/runs.yaml"),
        path("deploy/flux/operator.yaml"),
    );
    let read: usize = asked("flux", &["manifests", &runs, &operator], "").await;
    assert_eq!(read, 6);
    let applications = path("deploy/argocd/applications.yaml");
    let read: usize = asked("argocd", &["manifests", &applications], "").await;
    assert_eq!(read, 2);
}

/// No example takes a version that Git doesn't name.
/// Proves: I-remedy
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

/// Proves: P-recipes
#[tokio::test]
async fn the_examples_for_gitops_are_accepted_as_they_are() {
    let world = World::new().await;
    for entry in std::fs::read_dir(file("deploy/examples/gitops")).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            let text = std::fs::read_to_string(&path).unwrap();
            let args = [
                "apply",
                "--server-side",
                "--dry-run=server",
                "--field-manager=test",
                "-f",
                "-",
            ];
            let said = world.kubectl(&args, &text).await;
            assert!(said.is_ok(), "{}: {said:?}", path.display());
        }
    }
}

/// A health script that the `ConfigMap` lacks is never run.
/// Proves: P-argocd
#[test]
fn the_config_map_has_every_script_as_its_file_has_it() {
    let folder = "deploy/argocd/resource_customizations/run-operator.dev";
    let yaml = |file: &str| serde_saphyr::from_str::<Value>(&text_of(file)).unwrap();
    let cm = yaml("deploy/argocd/argocd-cm.yaml");
    let values = yaml("deploy/argocd/argocd-values.yaml");
    assert_eq!(cm["data"], values["configs"]["cm"]);
    assert_eq!(cm["data"].as_object().unwrap().len(), 6);
    for kind in ["ClusterWorkspace", "Run", "Workspace"] {
        let of = |what: &str| {
            let key = format!("resource.customizations.{what}.run-operator.dev_{kind}");
            cm["data"][key].as_str().unwrap().to_owned()
        };
        let script = |path: &str| text_of(&format!("{folder}/{kind}/{path}.lua"));
        assert_eq!(of("health"), script("health"), "{kind}");
        let actions: Value = serde_saphyr::from_str(&of("actions")).unwrap();
        assert_eq!(
            actions["discovery.lua"],
            script("actions/discovery"),
            "{kind}"
        );
        let definitions = actions["definitions"].as_array().unwrap();
        for action in definitions {
            let name = action["name"].as_str().unwrap();
            let wanted = script(&format!("actions/{name}/action"));
            assert_eq!(action["action.lua"], wanted, "{kind} {name}");
        }
        let scripts = files::below(&format!("{folder}/{kind}/actions"), "lua");
        assert_eq!(definitions.len() + 1, scripts.len(), "{scripts:?}");
    }
}
