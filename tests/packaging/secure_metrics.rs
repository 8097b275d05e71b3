//! The metrics over TLS, as the chart renders them.

use serde_json::{Value, json};

use crate::helm::{args, container, objects, of_kind, pod, the, with, with_file};

const SECURE: &str = "metrics.secure.enabled=true";

/// Proves: X-secure-metrics
#[test]
fn without_the_value_nothing_is_different() {
    let usual = objects(&[]);
    assert!(!args(&usual).iter().any(|arg| arg.starts_with("--metrics-")));
    let text = serde_json::to_string(&usual).unwrap();
    for word in ["tokenreviews", "metrics-reader", "\"https\""] {
        assert!(!text.contains(word), "{word}");
    }
}

/// Proves: X-secure-metrics
#[test]
fn its_rights_are_the_two_reviews_and_no_other() {
    let roles = |args: &[&str]| -> Vec<Value> {
        let objects = objects(args);
        let roles = [of_kind(&objects, "ClusterRole"), of_kind(&objects, "Role")].concat();
        roles.into_iter().cloned().collect()
    };
    let named = |role: &Value, part: &str| role["metadata"]["name"].to_string().contains(part);
    let with = roles(&["--set", SECURE]).into_iter();
    let (added, usual): (Vec<_>, Vec<_>) = with.partition(|role| named(role, "-metrics-"));
    assert_eq!(usual, roles(&[]));
    let own = added.iter().find(|role| named(role, "-metrics-auth"));
    let review = |group: &str, resource: &str| -> Value {
        json!({"apiGroups": [group], "resources": [resource], "verbs": ["create"]})
    };
    let reviews = json!([
        review("authentication.k8s.io", "tokenreviews"),
        review("authorization.k8s.io", "subjectaccessreviews"),
    ]);
    assert_eq!(own.unwrap()["rules"], reviews);
}

/// Proves: X-secure-metrics
#[test]
fn the_port_is_the_operator_s_the_service_s_and_the_monitor_s() {
    let set = format!("{SECURE},metrics.secure.port=9443,metrics.serviceMonitor.enabled=true");
    let secure = with(&set);
    let args = args(&secure);
    assert!(args.contains(&"--metrics-listen=[::]:9443"));
    assert!(!args.iter().any(|arg| arg.starts_with("--metrics-cert")));
    let port = json!({"name": "https", "containerPort": 9443, "protocol": "TCP"});
    assert_eq!(container(&secure)["ports"][1], port);
    let https = json!([{"name": "https", "port": 9443, "targetPort": "https", "protocol": "TCP"}]);
    assert_eq!(the(&secure, "Service")["spec"]["ports"], https);
    let endpoint = &the(&secure, "ServiceMonitor")["spec"]["endpoints"][0];
    assert_eq!(endpoint["port"], "https");
    assert_eq!(endpoint["scheme"], "https");
    let token = "/var/run/secrets/kubernetes.io/serviceaccount/token";
    assert_eq!(endpoint["bearerTokenFile"], token);
    assert_eq!(endpoint["tlsConfig"], json!({"insecureSkipVerify": true}));
}

/// Proves: X-secure-metrics
#[test]
fn a_certificate_is_mounted_only_for_the_operator() {
    let full = with_file("full");
    for flag in [
        "--metrics-cert=/etc/run-operator-metrics/tls.crt",
        "--metrics-key=/etc/run-operator-metrics/tls.key",
    ] {
        assert!(args(&full).contains(&flag), "{flag}");
    }
    let volume =
        json!({"name": "metrics-certificate", "secret": {"secretName": "run-operator-metrics"}});
    let spec = &pod(&full)["spec"];
    assert!(spec["volumes"].as_array().unwrap().contains(&volume));
    let mut mounts = container(&full)["volumeMounts"].as_array().unwrap().iter();
    assert!(mounts.any(|m| m["mountPath"] == "/etc/run-operator-metrics"));
    let test = the(&full, "Pod").to_string();
    assert!(!test.contains("metrics-certificate"));
    let tls = |objects: &[Value]| {
        the(objects, "ServiceMonitor")["spec"]["endpoints"][0]["tlsConfig"].clone()
    };
    assert_eq!(tls(&full), json!({"serverName": "metrics.example.com"}));
    let certificate = "metrics.secure.certSecretName=a,metrics.serviceMonitor.enabled=true";
    let ca = json!({"secret": {"name": "a", "key": "ca.crt"}});
    let name = "run-operator-metrics.run-operator.svc";
    let beside = with(&format!("{SECURE},{certificate}"));
    assert_eq!(tls(&beside), json!({"serverName": name, "ca": ca}));
}

/// Proves: X-secure-metrics
#[test]
fn a_pod_monitor_names_the_secret_with_the_token() {
    let platform = with_file("platform");
    assert!(args(&platform).contains(&"--metrics-listen=[::]:9443"));
    let endpoint = &the(&platform, "PodMonitor")["spec"]["podMetricsEndpoints"][0];
    let credentials = json!({"name": "scraper-token", "key": "token"});
    let bearer = json!({"type": "Bearer", "credentials": credentials});
    assert_eq!(endpoint["authorization"], bearer);
    assert_eq!(endpoint["tlsConfig"]["insecureSkipVerify"], true);
}
