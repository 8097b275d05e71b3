//! The Pod of the chart as the cluster sees it, whatever the values.

use rstest::rstest;
use serde_json::{Value, json};

use crate::helm::{ci, objects, pod, the};

/// Proves: I-pod
#[rstest]
#[case("default")]
#[case("full")]
#[case("namespaced")]
#[case("bare")]
#[case("shared")]
#[case("ha")]
#[case("platform")]
fn a_pod_is_restricted_and_its_environment_has_no_secret(#[case] values: &str) {
    let objects = objects(&["-f", &ci(values)]);
    let mut pods = vec![&pod(&objects)["spec"]];
    if values != "bare" {
        pods.push(&the(&objects, "Pod")["spec"]);
    }
    for spec in pods {
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
    let on_the_node = objects(&["--set", "hostNetwork=true"]);
    assert_eq!(
        the(&on_the_node, "Deployment")["spec"]["strategy"]["rollingUpdate"],
        json!({"maxSurge": 0, "maxUnavailable": 1}),
        "two of them would want one port"
    );
    let alone = objects(&["--set", "leaderElection.enabled=false"]);
    let strategy = &the(&alone, "Deployment")["spec"]["strategy"];
    assert_eq!(
        *strategy,
        json!({"type": "Recreate", "rollingUpdate": null})
    );
}

#[test]
fn the_probes_ask_for_what_the_program_serves() {
    let objects = objects(&[]);
    let container = &pod(&objects)["spec"]["containers"][0];
    let get = |probe: &str| -> Value { container[probe]["httpGet"].clone() };
    assert_eq!(
        get("livenessProbe"),
        json!({"path": "/healthz", "port": "http"})
    );
    assert_eq!(
        get("readinessProbe"),
        json!({"path": "/readyz", "port": "http"})
    );
    assert_eq!(container["ports"][0]["name"], "http");
}
