//! `statusPolicy`: only the operator writes a status and an intent.

use std::time::{Duration, Instant};

use crate::helm::{documents, manifests};
use crate::space::Space;

/// A policy counts from when the API server's own watch has seen it: a second or two as a rule.
const IN_FORCE_TIMEOUT: Duration = Duration::from_mins(2);

const RUN: &str = r#"{"apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": "train"},
    "spec": {"workload": {"image": "a"}}}"#;
const STATUS: &str = r#"{"status": {"phase": "Pending"}}"#;
const INTENT: &str = r#"{"metadata": {"annotations": {"run-operator.dev/intent": "forged"}}}"#;
const OTHER: &str = r#"{"metadata": {"annotations": {"example.com/note": "mine"}}}"#;

fn patch(space: &Space, body: &str, further: &[&str]) -> Result<String, String> {
    let patch = [
        "patch",
        "run",
        "train",
        "--dry-run=server",
        "--type=merge",
        "--patch",
        body,
    ];
    space.kubectl(&[&patch[..], further].concat(), "")
}

#[tokio::test]
async fn the_policy_lets_only_the_operator_write_status_and_intent() {
    let space = Space::new().await;
    let set = format!(
        "statusPolicy.enabled=true,watchNamespaces={{{}}}",
        space.namespace
    );
    let objects = documents(&manifests(&space.namespace, &["--set", &set]));
    space.kubectl(&["create", "-f", "-"], RUN).unwrap();
    let kinds = [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ];
    space.apply(&objects, &kinds);
    let status = ["--subresource=status"];
    let deadline = Instant::now() + IN_FORCE_TIMEOUT;
    let told = loop {
        match patch(&space, STATUS, &status) {
            Err(told) => break told,
            Ok(_) => assert!(
                Instant::now() < deadline,
                "the policy never came into force"
            ),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(
        told.contains("only the operator writes the status"),
        "{told}"
    );
    let told = patch(&space, INTENT, &[]).unwrap_err();
    assert!(told.contains("run-operator.dev/intent"), "{told}");
    patch(&space, OTHER, &[]).unwrap();

    // kubectl reads before it patches; the operator doesn't.
    let resources = "--resource=runs,runs/status";
    let role = ["create", "role", "reader", "--verb=get", resources];
    space.kubectl(&role, "").unwrap();
    let account = format!("--serviceaccount={}:run-operator", space.namespace);
    let binding = ["create", "rolebinding", "reader", "--role=reader", &account];
    space.kubectl(&binding, "").unwrap();
    let operator = format!(
        "--as=system:serviceaccount:{}:run-operator",
        space.namespace
    );
    patch(&space, STATUS, &["--subresource=status", &operator]).unwrap();
    patch(&space, INTENT, &[&operator]).unwrap();
}
