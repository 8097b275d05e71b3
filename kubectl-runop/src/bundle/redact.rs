//! What leaves the cluster of an object, and what doesn't.

use serde_json::{Value, json};

use run_operator::util::sha256;

/// Where kubectl keeps a copy of an applied manifest, workload and all.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The beginning of the operator's own variables.
const OWN: &str = "RUN_OPERATOR_";
const LEFT_OUT: &str = "(left out)";

/// A Run or a Workspace, with its workload as a hash unless that is asked for.
pub(super) fn object(mut object: Value, include_workloads: bool) -> Value {
    metadata(&mut object);
    if !include_workloads && let Some(workload) = object.pointer_mut("/spec/workload") {
        let text = workload.to_string();
        *workload = json!({"bytes": text.len(), "sha256": sha256(text.as_bytes())});
    }
    object
}

/// A Deployment or a Pod, without the values of variables that may be anything.
pub(super) fn pod_owner(mut object: Value) -> Value {
    metadata(&mut object);
    for path in ["/spec", "/spec/template/spec"] {
        for kind in ["containers", "initContainers", "ephemeralContainers"] {
            let containers = object.pointer_mut(&format!("{path}/{kind}"));
            let containers = containers.and_then(Value::as_array_mut);
            containers.into_iter().flatten().for_each(variables);
        }
    }
    if let Some(template) = object.pointer_mut("/spec/template") {
        metadata(template);
    }
    object
}

fn variables(container: &mut Value) {
    for variable in container["env"].as_array_mut().into_iter().flatten() {
        let own = variable["name"]
            .as_str()
            .is_some_and(|name| name.starts_with(OWN));
        if !own && variable.get("value").is_some() {
            variable["value"] = LEFT_OUT.into();
        }
    }
}

/// The names of fields in `managedFields` are those of the workload.
fn metadata(object: &mut Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    metadata.remove("managedFields");
    if let Some(applied) = metadata
        .get_mut("annotations")
        .and_then(|annotations| annotations.get_mut(LAST_APPLIED))
    {
        *applied = LEFT_OUT.into();
    }
}
