//! The Pod that the chart makes is fenced in as the restricted profile of Pod Security asks.

use std::io::ErrorKind;

use kube::ResourceExt;
use serde_json::{Value, json};

use crate::installation::Installation;
use crate::operator::Operator;

/// Checks the live Pod from outside and by the API server's own admission. Nothing to see of a process.
pub(crate) async fn is_restricted(installation: &Installation) {
    if !matches!(installation.operator, Operator::Pod) {
        return;
    }
    let (pod, container) = installation.ready_pod().await;
    let pids = installation
        .control_plane
        .pod_pids(container.container_id.as_deref());
    let pids = pids.unwrap();
    assert_eq!(pids.len(), 1, "nothing runs beside the operator");
    let status = std::fs::read_to_string(format!("/proc/{}/status", pids[0])).unwrap();
    for line in [
        "Uid:\t65532\t65532\t65532\t65532",
        "Gid:\t65532\t65532\t65532\t65532",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        // 2: a filter.
        "Seccomp:\t2",
    ] {
        assert!(
            status.lines().any(|seen| seen == line),
            "{line} in {status}"
        );
    }
    // The container's own view of its files; we are root, and still may not.
    for place in [
        "/",
        "/tmp/",
        "/etc/",
        "/var/run/secrets/kubernetes.io/serviceaccount/",
    ] {
        let file = format!("/proc/{}/root{place}written", pids[0]);
        let kind = std::fs::write(&file, "").unwrap_err().kind();
        let nowhere = [ErrorKind::ReadOnlyFilesystem, ErrorKind::NotFound];
        assert!(nowhere.contains(&kind), "{file}: {kind:?}");
    }
    admitted(
        installation,
        &serde_json::to_value(&pod).unwrap(),
        &pod.name_any(),
    )
    .await;
}

/// Only the host's network, without which no Pod reaches anything on this node, keeps the Pod out of a
/// namespace that is `restricted`: without it, the API server admits the same Pod there.
async fn admitted(installation: &Installation, pod: &Value, name: &str) {
    let namespace = json!({"metadata": {"name": "restricted", "labels": {
        "pod-security.kubernetes.io/enforce": "restricted",
    }}});
    installation
        .create("/api/v1/namespaces", &namespace)
        .await
        .unwrap();
    let mut copy = json!({"metadata": {"name": name}, "spec": pod["spec"]});
    copy["spec"]["serviceAccountName"] = Value::Null;
    copy["spec"]["serviceAccount"] = Value::Null;
    copy["spec"]["nodeName"] = Value::Null;
    let path = "/api/v1/namespaces/restricted/pods";
    let refused = installation
        .create(path, &copy)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("host namespaces (hostNetwork=true)"),
        "{refused}"
    );
    copy["spec"]["hostNetwork"] = false.into();
    // Ports of the host and a host in the probes are needed only with the host's network.
    let container = &mut copy["spec"]["containers"][0];
    for probe in ["livenessProbe", "readinessProbe"] {
        container[probe]["httpGet"]["host"] = Value::Null;
    }
    for port in container["ports"].as_array_mut().unwrap() {
        port["hostPort"] = Value::Null;
    }
    installation.create(path, &copy).await.unwrap();
}
