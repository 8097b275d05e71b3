//! What a Pod of the chart is to the cluster, whatever the values.

use rstest::rstest;
use serde_json::{Value, json};

use crate::helm::{ci, objects, pod, the};

#[rstest]
#[case("default")]
#[case("full")]
#[case("namespaced")]
#[case("bare")]
#[case("shared")]
fn a_pod_is_fenced_in_and_its_environment_holds_no_secret(#[case] values: &str) {
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

#[test]
fn one_pod_ends_before_the_next_one_starts() {
    let objects = objects(&[]);
    let deployment = the(&objects, "Deployment");
    assert_eq!(deployment["spec"]["strategy"], json!({"type": "Recreate"}));
    assert_eq!(deployment["spec"]["replicas"], 1);
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
