//! The Pod that the chart makes is fenced in as the restricted profile of Pod Security asks.

use std::io::ErrorKind;

use crate::installation::Installation;

/// Checks the live Pod from outside; `packaging` has the API server's own admission.
pub(crate) async fn is_restricted(installation: &Installation) {
    let (_, container) = installation.ready_pod().await;
    let id = container.container_id.as_deref();
    let pids = installation.control_plane.pod_pids(id).unwrap();
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
        let seen = status.lines().any(|seen| seen == line);
        assert!(seen, "{line} in {status}");
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
}
