//! The API server's answers to the operator's service account, as the chart binds it.

use rstest::rstest;

use crate::helm::{documents, manifests};
use crate::namespace::Space;

const BOUND: &[&str] = &[
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
];

/// `kubectl auth can-i`, by the operator of a release in the space's namespace.
fn can(space: &Space, question: &str) -> bool {
    let account = format!("{}:run-operator", space.namespace);
    can_account(space, &account, question)
}

/// The same by a `ServiceAccount`.
fn can_account(space: &Space, account: &str, question: &str) -> bool {
    let user = format!("system:serviceaccount:{account}");
    let ask = ["auth", "can-i", "--as", &user].into_iter();
    let words: Vec<&str> = ask.chain(question.split(' ')).collect();
    // It refuses by its exit code, and by a warning for objects without a namespace.
    let said = space.kubectl(&words, "");
    said.is_ok_and(|said| said.trim() == "yes")
}

/// The chart's accounts and roles with these values, in a space which is all that is watched if there is but `one`.
async fn bound(one: bool, values: &[&str]) -> Space {
    let space = Space::new().await;
    let here = &space.namespace;
    let watched = format!("watchNamespaces={{{here}}}");
    let watched = ["--set", watched.as_str()];
    let args = [values, if one { &watched } else { &[] }].concat();
    space.apply(&documents(&manifests(here, &args)), BOUND);
    space
}

/// Proves: X-rbac
#[rstest]
#[case::everywhere(false)]
#[case::in_one_namespace(true)]
#[tokio::test]
async fn it_may_what_it_needs_where_it_is_needed_and_nothing_else(#[case] one: bool) {
    let space = bound(one, &[]).await;
    for needed in [
        "patch runs",
        "list runs",
        "update runs",
        "delete runs",
        "patch runs --subresource=status",
        "watch workspaces",
        "get secrets/run-operator-token",
        "create events",
    ] {
        assert!(can(&space, needed), "can't {needed}");
        let elsewhere = can(&space, &format!("{needed} --namespace default"));
        assert_eq!(elsewhere, !one, "{needed} elsewhere");
    }
    for needed in [
        "create leases.coordination.k8s.io",
        "get leases.coordination.k8s.io/run-operator",
        "update leases.coordination.k8s.io/run-operator",
    ] {
        assert!(can(&space, needed), "can't {needed}");
        assert!(!can(&space, &format!("{needed} --namespace default")));
    }
    for never in [
        "get leases.coordination.k8s.io/another",
        "update leases.coordination.k8s.io/another",
        "delete leases.coordination.k8s.io/run-operator",
        "list leases.coordination.k8s.io",
        "get secrets/other",
        "list secrets",
        "create runs",
        "create pods",
        "get configmaps",
        "create workspaces",
        "impersonate users",
        "delete workspaces",
        "create tokenreviews.authentication.k8s.io -A",
        "create subjectaccessreviews.authorization.k8s.io -A",
        "get /metrics",
    ] {
        assert!(!can(&space, never), "can {never}");
    }
}

/// Proves: X-rbac
#[rstest]
#[case::everywhere(false)]
#[case::in_one_namespace(true)]
#[tokio::test]
async fn with_schedules_it_may_also_create_runs_and_own_them(#[case] one: bool) {
    let space = bound(one, &["--set", "schedules.enabled=true"]).await;
    for needed in [
        "create runs",
        "list runschedules",
        "watch runschedules",
        "list runtemplates",
        "watch runtemplates",
        "patch runschedules --subresource=status",
        "update runschedules --subresource=finalizers",
    ] {
        assert!(can(&space, needed), "can't {needed}");
        let elsewhere = can(&space, &format!("{needed} --namespace default"));
        assert_eq!(elsewhere, !one, "{needed} elsewhere");
    }
    for never in [
        "create runschedules",
        "patch runschedules",
        "update runschedules",
        "delete runschedules",
        "patch runtemplates",
    ] {
        assert!(!can(&space, never), "can {never}");
    }
}

/// Proves: X-secure-metrics, X-rbac
#[rstest]
#[case::everywhere(false)]
#[case::in_one_namespace(true)]
#[tokio::test]
async fn with_secure_metrics_it_may_review_and_readers_may_scrape(#[case] one: bool) {
    let readers = r#"metrics.secure.readers=[{"kind":"ServiceAccount","name":"prometheus","namespace":"monitoring"}]"#;
    let secure = [
        "--set",
        "metrics.secure.enabled=true",
        "--set-json",
        readers,
    ];
    let space = bound(one, &secure).await;
    for needed in [
        "create tokenreviews.authentication.k8s.io -A",
        "create subjectaccessreviews.authorization.k8s.io -A",
    ] {
        assert!(can(&space, needed), "can't {needed}");
    }
    assert!(!can(&space, "get /metrics"));
    assert!(!can(&space, "list secrets"));
    assert!(can_account(&space, "monitoring:prometheus", "get /metrics"));
    assert!(!can_account(&space, "monitoring:prometheus", "get /logs"));
    assert!(!can_account(&space, "monitoring:other", "get /metrics"));
}
