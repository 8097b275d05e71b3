//! The Pod of the chart as the cluster sees it, whatever the values.

use serde_json::{Value, json};

use crate::helm::{CI, objects, of_kind, pod, the, with, with_file};

/// Proves: I-pod
#[test]
fn a_pod_is_restricted_and_its_environment_has_no_secret() {
    for objects in CI.map(with_file) {
        // The operator's, and that of `helm test`.
        let tests = of_kind(&objects, "Pod").into_iter();
        let pods = tests.chain([pod(&objects)]).map(|pod| &pod["spec"]);
        for spec in pods {
            restricted(spec);
        }
    }
}

fn restricted(spec: &Value) {
    assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
    assert_eq!(
        spec["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    let container = &spec["containers"][0];
    let fences = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
    });
    assert_eq!(container["securityContext"], fences);
    let env = container["env"].as_array().into_iter().flatten();
    for variable in env {
        assert!(
            variable["valueFrom"].get("secretKeyRef").is_none(),
            "{variable}"
        );
    }
}

/// Proves: I-several-pods
#[test]
fn a_rollout_surges_with_an_election_and_recreates_without_one() {
    let objects_of = objects(&[]);
    let spec = &the(&objects_of, "Deployment")["spec"];
    let rolling = json!({
        "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    });
    assert_eq!(spec["strategy"], rolling);
    assert_eq!(spec["replicas"], 1);
    let on_the_node = with("hostNetwork=true");
    assert_eq!(
        the(&on_the_node, "Deployment")["spec"]["strategy"]["rollingUpdate"],
        json!({"maxSurge": 0, "maxUnavailable": 1}),
        "two of them would want one port"
    );
    let alone = with("leaderElection.enabled=false");
    let strategy = &the(&alone, "Deployment")["spec"]["strategy"];
    assert_eq!(
        *strategy,
        json!({"type": "Recreate", "rollingUpdate": null})
    );
}
