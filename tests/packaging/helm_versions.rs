//! Helm 3 and Helm 4 render the same. What they do on a cluster is in `release`.

use serde_json::Value;

use crate::helm::{self, CI, Helm, chart, ci};

/// Helm 3, built without its release's flags, takes a very old version for granted where there is no cluster.
const KUBERNETES: [&str; 2] = ["--kube-version", "1.36.0"];

fn rendered(helm: Helm, values: &str) -> Vec<Value> {
    let file = ci(values);
    let args = [&["-f", &file][..], &KUBERNETES].concat();
    let output = helm.template(&chart(), "run-operator", "run-operator", &args);
    let mut objects = helm::documents(&helm::done(&output));
    // The order is each version's own.
    objects.sort_by_key(|o| format!("{} {}", o["kind"], o["metadata"]));
    objects
}

/// Proves: I-helm
#[test]
fn both_versions_of_helm_render_the_same_objects() {
    for values in CI {
        let (three, four) = (rendered(Helm::V3, values), rendered(Helm::V4, values));
        assert!(!three.is_empty(), "{values}");
        assert_eq!(three.len(), four.len(), "{values}");
        for (three, four) in three.iter().zip(&four) {
            assert_eq!(three, four, "{values}");
        }
    }
}

/// Proves: I-helm
#[test]
fn both_versions_of_helm_refuse_a_wrong_value_by_its_name() {
    for helm in [Helm::V3, Helm::V4] {
        for (set, word) in [
            ("bsaeUrl=a", "bsaeUrl"),
            ("replicas=2,replicaCount=3", "set one of them"),
        ] {
            let args = [&["--set", set][..], &KUBERNETES].concat();
            let output = helm.template(&chart(), "release", "release", &args);
            let told = String::from_utf8(output.stderr).unwrap();
            assert!(
                !output.status.success() && told.contains(word),
                "{helm:?}: {told}"
            );
        }
    }
}
