//! The names of points, by what is about to be sent: no writer or caller has to name itself, and an unforeseen write has a
//! name, too.

use run_operator::api::names;
use serde_json::Value;

use crate::support::Asked;

/// An event of a stream.
pub(super) const EVENT: &str = "stream.event";

/// The name of a request to the API server: resource and subresource, an intent and a release by the finalizers, the
/// release of a Lease by its holder. Reads are no points: what an old, broken or silent view of the cluster leads to
/// is tried in `tests/e2e/stale`.
pub(super) fn at_api_server(asked: &Asked) -> Option<String> {
    if ["get", "list", "watch"].contains(&asked.verb) {
        return None;
    }
    let (resource, subresource) = match asked.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource)),
        None => (asked.resource.as_str(), None),
    };
    let kind = match resource {
        "runs" => "run",
        "workspaces" | "clusterworkspaces" => "workspace",
        "events" => return Some("kube.event".to_owned()),
        "leases" if asked.verb == "create" => return Some("kube.lease.create".to_owned()),
        "leases" if resigns(&asked.body) => return Some("kube.lease.release".to_owned()),
        "leases" => return Some("kube.lease.update".to_owned()),
        other => return Some(format!("kube.{other}.{}", asked.verb)),
    };
    let what = match subresource {
        Some(subresource) => subresource,
        None if asked.verb == "delete" => "delete",
        // A PUT has no other use.
        None if asked.verb == "update" || releases(&asked.body) => "release",
        None if kind == "run" => "intent",
        None => "finalizer",
    };
    Some(format!("kube.{kind}.{what}"))
}

/// The name of a call to the service, or of an event of its stream.
pub(super) fn at_service(asked: &Asked) -> String {
    let name = match (asked.verb, asked.resource.as_str(), &asked.name) {
        ("event", ..) => EVENT,
        ("list", "version", _) => "service.version",
        ("get", "workspaces", _) => "service.workspace",
        ("create", "runs", None) => "service.create",
        ("create", "runs", Some(_)) => "service.cancel",
        ("get", "runs/events", _) => "service.stream",
        ("get", "runs", _) => "service.get",
        (verb, resource, _) => return format!("service.{resource}.{verb}"),
    };
    name.to_owned()
}

/// Whether a JSON patch removes the operator's finalizer.
fn releases(patch: &str) -> bool {
    let Ok(Value::Array(operations)) = serde_json::from_str(patch) else {
        return false;
    };
    operations
        .iter()
        .filter(|operation| operation["path"] == "/metadata/finalizers")
        .filter_map(|operation| operation["value"].as_array())
        .any(|finalizers| !finalizers.iter().any(|f| f == names::FINALIZER))
}

/// Whether a Lease names no holder.
fn resigns(lease: &str) -> bool {
    let lease: Value = serde_json::from_str(lease).unwrap_or_default();
    lease["spec"]["holderIdentity"] == ""
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use rstest::rstest;

    use super::*;

    const ON: &str =
        r#"[{"op":"add","path":"/metadata/finalizers","value":["run-operator.dev/cancel"]}]"#;
    const OFF: &str = r#"[{"op":"add","path":"/metadata/finalizers","value":[]}]"#;
    const OURS: &str = "/apis/run-operator.dev/v1alpha1";
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/a/leases";

    fn asked(method: &str, path: &str, body: &str) -> Asked {
        let request = Request::builder().method(method).uri(path);
        let (parts, ()) = request.body(()).unwrap().into_parts();
        Asked::of(&parts, &body.to_owned().into())
    }

    #[rstest]
    #[case("PATCH", [OURS, "/namespaces/a/runs/runs"], ON, "kube.run.intent")]
    #[case("PATCH", [OURS, "/namespaces/a/runs/b"], OFF, "kube.run.release")]
    #[case("PUT", [OURS, "/namespaces/a/runs/b"], "{}", "kube.run.release")]
    #[case("PATCH", [OURS, "/namespaces/a/runs/b/status"], "", "kube.run.status")]
    #[case("DELETE", [OURS, "/namespaces/a/runs/b"], "", "kube.run.delete")]
    #[case("PATCH", [OURS, "/namespaces/a/workspaces/b"], ON, "kube.workspace.finalizer")]
    #[case("PATCH", [OURS, "/clusterworkspaces/b"], OFF, "kube.workspace.release")]
    #[case("PATCH", [OURS, "/clusterworkspaces/b/status"], "", "kube.workspace.status")]
    #[case("POST", ["/api/v1/namespaces/a/events", ""], "", "kube.event")]
    #[case("POST", [LEASES, ""], "", "kube.lease.create")]
    #[case("PUT", [LEASES, "/b"], r#"{"spec":{"holderIdentity":"b"}}"#, "kube.lease.update")]
    #[case("PUT", [LEASES, "/b"], r#"{"spec":{"holderIdentity":""}}"#, "kube.lease.release")]
    #[case("PATCH", ["/api/v1/namespaces/a/configmaps/b", ""], "", "kube.configmaps.patch")]
    fn each_write_has_a_point_of_its_own(
        #[case] method: &str,
        #[case] path: [&str; 2],
        #[case] body: &str,
        #[case] expected: &str,
    ) {
        let name = at_api_server(&asked(method, &path.concat(), body));
        assert_eq!(name.as_deref(), Some(expected));
    }
}
