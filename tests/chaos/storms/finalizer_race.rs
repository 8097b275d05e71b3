//! A deletion that began before the finalizer was written may remove the object although it has the finalizer
//! by then (kubernetes/kubernetes#77988). Some storms show it, and count the results; in the others each Run
//! has its finalizer from its creation, and nothing is excused.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use run_operator::api::names;
use serde_json::{Value, json};

use super::environment::Stage;
use crate::support::eventually;

const POLICY: &str =
    include_str!("../../../deploy/kustomize/components/finalizer-policy/policy.yaml");
const PROBE: &str = r#"{"apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": "probe"},
    "spec": {"workload": {"image": "a"}}}"#;

impl Stage {
    /// Gives each Run of this namespace its finalizer at its creation from now on.
    pub(crate) async fn hold_from_birth(&mut self) {
        self.held_from_birth = true;
        let namespace = &self.world.namespace;
        for document in POLICY.split("\n---\n") {
            let mut object: Value = serde_saphyr::from_str(document).unwrap();
            let name = format!("finalizer.{namespace}");
            object["metadata"]["name"] = json!(name);
            if object["kind"] == "MutatingAdmissionPolicyBinding" {
                object["spec"]["policyName"] = json!(name);
                object["spec"]["matchResources"] = json!({"namespaceSelector": {"matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [namespace]},
                ]}});
            }
            let object = object.to_string();
            let create = ["create", "-f", "-"];
            self.world.kubectl(&create, &object).await.unwrap();
        }
        eventually("the policy is in force", async || {
            let create = ["create", "--dry-run=server", "-o", "yaml", "-f", "-"];
            match self.world.kubectl(&create, PROBE).await {
                Ok(stored) if stored.contains(names::FINALIZER) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// The uids of the objects that the API server removed in spite of their finalizer.
    pub(crate) fn overtaken(&self) -> HashSet<String> {
        if self.held_from_birth {
            return HashSet::new();
        }
        let log = self.world.control_plane.audit_log().unwrap();
        let mut removals = self.removals.lock().unwrap();
        removals.read_on(&log, &self.world.namespace).unwrap();
        removals.overtaken()
    }
}

/// The entries of the API server's own audit log about the Runs of a namespace. It is read from where the
/// last reading ended: it grows to hundreds of megabytes.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    /// Bytes of the log.
    read: u64,
    /// The uids of objects with a finalizer that was not removed.
    held: HashSet<String>,
    /// Those whose deletion was answered by a Status, and not by the object that waits for its finalizer.
    removed: HashSet<String>,
}

impl Removals {
    fn read_on(&mut self, log: &Path, namespace: &str) -> io::Result<()> {
        let mut file = File::open(log)?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let bytes = reader.read_until(b'\n', &mut line)?;
            // The last one may be half written, and one at which the API server was killed stays so.
            if !line.ends_with(b"\n") {
                return Ok(());
            }
            self.read += u64::try_from(bytes).unwrap();
            self.learn(&String::from_utf8_lossy(&line), namespace);
        }
    }

    pub(crate) fn learn(&mut self, line: &str, namespace: &str) {
        let of_finalizers = line.contains("/metadata/finalizers");
        let telling = of_finalizers || line.contains(r#""verb":"delete""#);
        if !telling || !line.contains(namespace) {
            return;
        }
        let entry: Value = serde_json::from_str(line).unwrap_or_default();
        let object = &entry["objectRef"];
        let of_runs = object["resource"] == "runs" && object["namespace"] == *namespace;
        if !of_runs || entry["responseStatus"]["code"] != 200 {
            return;
        }
        if entry["verb"] == "delete" && entry["responseObject"]["kind"] == "Status" {
            let uid = entry["responseObject"]["details"]["uid"].as_str();
            self.removed.extend(uid.map(str::to_owned));
        } else if let Some((uid, finalizer)) = written(&entry["requestObject"]) {
            if finalizer {
                self.held.insert(uid);
            } else {
                self.held.remove(&uid);
            }
        }
    }

    /// Those that were removed in spite of their finalizer.
    pub(crate) fn overtaken(&self) -> HashSet<String> {
        self.held.intersection(&self.removed).cloned().collect()
    }
}

/// The uid that a JSON patch is for, and whether our finalizer is among those that it writes.
fn written(patch: &Value) -> Option<(String, bool)> {
    let value_at = |path: &str| {
        let operations = patch.as_array()?;
        let operation = operations
            .iter()
            .find(|operation| operation["path"] == path)?;
        Some(&operation["value"])
    };
    let uid = value_at("/metadata/uid")?.as_str()?.to_owned();
    let finalizers = value_at("/metadata/finalizers")?.as_array()?;
    Some((uid, finalizers.contains(&json!(names::FINALIZER))))
}
