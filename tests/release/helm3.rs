//! Helm 3 renders what Helm 4 does. What Helm does on a cluster is in the suite `packaging`, with Helm 4.

use serde_json::Value;

use test_support::tools::go_tool;

use crate::helm::{chart, ci, documents, done, manifests, of_program};

/// Proves: I-taken
#[test]
fn helm_3_renders_the_same_objects() {
    let full = ci("full");
    // Built without its release's flags, it takes a very old version for granted where there is no cluster.
    let args = ["-f", &full, "--kube-version", "1.36.0"];
    let mut three = of_program(&go_tool("helm3").unwrap());
    three.args(["template", "run-operator"]).arg(chart());
    three.args(["--namespace", "run-operator"]).args(args);
    // The order is each version's own.
    let sorted = |yaml: &str| -> Vec<Value> {
        let mut objects = documents(yaml);
        objects.sort_by_key(|o| format!("{} {}", o["kind"], o["metadata"]));
        objects
    };
    let three = sorted(&done(&three.output().unwrap()));
    assert!(!three.is_empty());
    assert_eq!(three, sorted(&manifests("run-operator", &args)));
}
