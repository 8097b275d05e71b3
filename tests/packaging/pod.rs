//! The Pod of the chart as the cluster sees it, whatever the values.

use serde_json::json;

use crate::helm::{CI, objects, of_kind, pod, the, with, with_file};

/// The rest of the profile is in `admission`: the API server warns of a Pod that doesn't fit it.
/// Proves: I-pod
#[test]
fn a_pod_is_read_only_and_its_environment_has_no_secret() {
    let fences = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
    });
    for objects in CI.map(with_file) {
        // The operator's, and that of `helm test`.
        let tests = of_kind(&objects, "Pod").into_iter();
        for pod in tests.chain([pod(&objects)]) {
            let container = &pod["spec"]["containers"][0];
            assert_eq!(container["securityContext"], fences);
            let mut env = container["env"].as_array().into_iter().flatten();
            let secret = env.find(|v| v["valueFrom"].get("secretKeyRef").is_some());
            assert_eq!(secret, None);
        }
    }
}

/// Proves: I-values
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
    let recreate = json!({"type": "Recreate", "rollingUpdate": null});
    assert_eq!(the(&alone, "Deployment")["spec"]["strategy"], recreate);
}
