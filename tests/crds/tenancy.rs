//! No object can name an object of another namespace: there is no field for it, and no name that does so.

use rstest::rstest;
use run_operator::api::RunStatus;
use serde_json::{Value, json};

use crate::namespace::{Space, assert_refused};

/// Every reference of every kind, with a namespace, which is not allowed.
fn references() -> [(&'static str, Value, &'static str); 5] {
    let to = json!({"name": "a", "namespace": "kube-system"});
    [
        (
            "Run",
            json!({"workload": {"image": "x"}, "workspaceRef": to}),
            "workspaceRef",
        ),
        ("Workspace", json!({"tokenSecretRef": to}), "tokenSecretRef"),
        ("Workspace", json!({"caSecretRef": to}), "caSecretRef"),
        (
            "ClusterWorkspace",
            json!({"tokenSecretRef": to}),
            "tokenSecretRef",
        ),
        (
            "ClusterWorkspace",
            json!({"caSecretRef": to}),
            "caSecretRef",
        ),
    ]
}

/// Proves: X-references
#[tokio::test]
async fn a_reference_with_a_namespace_loses_it_before_it_is_stored() {
    let space = Space::new().await;
    for (number, (kind, spec, field)) in references().into_iter().enumerate() {
        let name = format!("created-{number}");
        let created = space.created(kind, &name, spec.clone()).await;
        assert_eq!(created["spec"][field], json!({"name": "a"}));
        let patch =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {field: {"namespace": "other"}}});
        let patched = space.patch(kind, &name, &patch).await.unwrap();
        assert_eq!(patched["spec"][field], json!({"name": "a"}));
    }
}

/// Proves: X-references
#[tokio::test]
async fn strict_validation_rejects_a_reference_with_a_namespace() {
    let space = Space::new().await;
    for (number, (kind, spec, field)) in references().into_iter().enumerate() {
        let path = format!("spec.{field}.namespace");
        let name = format!("strict-{number}");
        let refused = space.create_strictly(kind, &name, spec.clone()).await;
        let status = refused.unwrap_err();
        let told = format!("unknown field \"{path}\"");
        assert_eq!(status.code, 400);
        assert!(status.message.contains(&told), "{}", status.message);
        // Server-side apply uses the schema, and drops nothing silently.
        let applied = space.apply(kind, &name, spec).await;
        let status = applied.unwrap_err();
        let told = format!(".spec.{field}.namespace: field not declared in schema");
        assert!(status.message.contains(&told), "{}", status.message);
    }
}

/// A user who may only create Runs can't start with a runID of their choice.
/// Proves: X-forged
#[tokio::test]
async fn a_status_in_a_created_object_is_dropped() {
    let space = Space::new().await;
    let run = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": "a"},
        "spec": {"workload": {"image": "x"}}, "status": {"runID": "somebody-s", "phase": "Active"},
    });
    let created = space.create_text("Run", &run.to_string()).await.unwrap();
    assert_eq!(created["status"], json!(RunStatus::initial()));
    let patch = json!({"status": {"runID": "somebody-s"}, "spec": {"suspend": true}});
    let patched = space.patch("Run", "a", &patch).await.unwrap();
    assert_eq!(patched["status"], json!(RunStatus::initial()));
}

/// Proves: X-references
#[rstest]
#[case::a_slash("kube-system/a")]
#[case::a_parent("..")]
#[case::a_path_up("../kube-system/a")]
#[case::an_encoded_slash("kube-system%2Fa")]
#[case::a_backslash("kube-system\\a")]
#[case::a_colon("a:b")]
#[case::a_query("a?watch=1")]
#[case::a_selector("a,metadata.name!=a")]
#[case::a_line_break("a\nb")]
#[case::a_nul("a\0b")]
#[case::a_space(" a")]
#[case::a_dot_at_the_end("a.")]
#[case::two_dots("a..b")]
#[case::capitals("A")]
#[case::beyond_ascii("\u{430}")]
#[tokio::test]
async fn a_name_that_could_lead_elsewhere_is_refused(#[case] name: &str) {
    let space = Space::new().await;
    for (kind, mut spec, field) in references() {
        spec[field] = json!({"name": name});
        let answer = space.create(kind, "a", spec).await;
        assert_refused(answer, &format!("spec.{field}.name"), "should match");
    }
}

/// Proves: X-references
#[rstest]
#[case::a_slash("a/b")]
#[case::a_parent("../token")]
#[case::a_line_break("a\r\nb")]
#[case::a_nul("a\0")]
#[tokio::test]
async fn a_key_that_could_lead_elsewhere_is_refused(#[case] key: &str) {
    let space = Space::new().await;
    for kind in ["Workspace", "ClusterWorkspace"] {
        for field in ["tokenSecretRef", "caSecretRef"] {
            let spec = json!({field: {"name": "a", "key": key}});
            let answer = space.create(kind, "a", spec).await;
            assert_refused(answer, &format!("spec.{field}.key"), "should match");
        }
    }
}

/// Header values come from these two fields, and from the Secret.
/// Proves: X-token
#[rstest]
#[case::another_header("a\r\nX-Injected: 1", "should match")]
#[case::a_line_feed("a\nb", "should match")]
#[case::a_carriage_return("a\rb", "should match")]
#[case::a_nul("a\0b", "should match")]
#[case::a_tab("a\tb", "should match")]
#[case::a_space("a b", "should match")]
#[case::beyond_ascii("é", "should match")]
#[case::a_byte_order_mark("\u{feff}a", "should match")]
#[case::eight_kibibytes(&"a".repeat(8192), "more than 255")]
#[tokio::test]
async fn what_no_header_can_carry_is_refused(#[case] value: &str, #[case] message: &str) {
    let space = Space::new().await;
    let run = json!({"workload": {"image": "x"}, "idempotencyKey": value});
    let answer = space.create("Run", "a", run).await;
    assert_refused(answer, "spec.idempotencyKey", message);
    for kind in ["Workspace", "ClusterWorkspace"] {
        let workspace = json!({"workspaceID": value});
        let answer = space.create(kind, "a", workspace).await;
        assert_refused(answer, "spec.workspaceID", message);
    }
}

/// The schema refuses these before the operator reads them; its own check is the fence behind.
/// Proves: X-allow-list, X-references
#[rstest]
#[case("runs.example.com/api/v1")]
#[case("ftp://runs.example.com")]
#[case("https:///api/v1")]
#[case("https://u:p@runs.example.com/api/v1")]
#[case("https://runs.example.com/api/v1#x")]
#[case("https://runs.example.com/a b")]
#[case("https://runs.example.com/api/v1\n")]
#[case("https://runs.example.com:port/api/v1")]
#[case("https://runs.example.com@evil.test/api")]
#[case("https://runs.example.com\\@evil.test/api")]
#[case("https://runs.ex\u{430}mple.com/api")]
#[case("https://runs.example.com/api?token=x")]
#[case("https://runs.example.com/\tapi")]
#[case("https://runs.example.com%40evil.test/api")]
#[case("file:///etc/passwd")]
#[case("gopher://runs.example.com/_GET")]
#[case("https://[fe80::1%25lo]/api")]
#[tokio::test]
async fn a_base_url_with_more_than_an_address_is_refused(#[case] url: &str) {
    let space = Space::new().await;
    for kind in ["Workspace", "ClusterWorkspace"] {
        let answer = space.create(kind, "a", json!({"baseURL": url})).await;
        assert_refused(answer, "spec.baseURL", "should match");
    }
}
