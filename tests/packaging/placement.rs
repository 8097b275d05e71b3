//! Where the objects and the Pods go: namespace, nodes, number, addresses, and what is beside them.

use serde_json::{Value, json};

use crate::helm::{args, documents, manifests, objects, of_kind, pod, texts, the, with, with_file};

fn required(spec: &Value) -> &Value {
    &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
}

/// Proves: I-values
#[test]
fn pods_go_to_nodes_for_which_there_are_images() {
    let images =
        json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]}]);
    let usual = objects(&[]);
    for spec in [&pod(&usual)["spec"], &the(&usual, "Pod")["spec"]] {
        assert_eq!(*required(spec), json!([{"matchExpressions": images}]));
        assert_eq!(spec["nodeSelector"]["kubernetes.io/os"], "linux");
    }
    // The terms may be the user's own. What keeps the operator's Pods apart is not for that of `helm test`.
    let platform = with_file("platform");
    let terms = required(&pod(&platform)["spec"]).as_array().unwrap();
    assert_eq!(terms.len(), 2);
    let apart = with("affinity.podAntiAffinity.a=b");
    let affinity = |spec: &Value| spec["affinity"].clone();
    let own = affinity(&pod(&apart)["spec"]);
    assert_eq!(own["podAntiAffinity"], json!({"a": "b"}));
    let of_the_test = |objects: &[Value]| affinity(&the(objects, "Pod")["spec"]);
    assert_eq!(of_the_test(&apart), of_the_test(&usual));
}

/// Names of namespaces in an object, wherever they are.
fn namespaces<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (name, below) in fields {
                match below.as_str() {
                    Some(text) if name == "namespace" => found.push(text),
                    _ => namespaces(below, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| namespaces(item, found)),
        _ => {}
    }
}

/// Proves: I-values
#[test]
fn every_object_is_in_the_overriding_namespace() {
    let set = "namespaceOverride=ops,statusPolicy.enabled=true,service.contract=a: 1,\
               metrics.secure.enabled=true,metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true,\
               metrics.dashboard.enabled=true,podDisruptionBudget.enabled=true,clusterWorkspaces.enabled=true";
    let network = r#"networkPolicy={"enabled":true,"ingress":{"from":[{"podSelector":{}}]},"egress":{"apiServerTo":[{"podSelector":{}}],"serviceTo":[{"podSelector":{}}]}}"#;
    for watched in ["", ",watchNamespaces={ops,team-a}"] {
        let all = objects(&["--set", &format!("{set}{watched}"), "--set-json", network]);
        for object in &all {
            let mut found = Vec::new();
            namespaces(object, &mut found);
            let wrong = found
                .iter()
                .find(|name| !["ops", "team-a", "default"].contains(name));
            assert_eq!(wrong, None, "{object}");
            // Neither in a name, an argument, an expression nor an address.
            let text = object.to_string();
            for of_the_release in [
                "run-operator:run-operator",
                ".run-operator.svc",
                "namespace=run-operator",
            ] {
                assert!(!text.contains(of_the_release), "{text}");
            }
        }
        let args = args(&all);
        for flag in [
            "--leader-elect-namespace=ops",
            "--cluster-resource-namespace=ops",
        ] {
            assert!(args.contains(&flag), "{flag} is not in {args:?}");
        }
    }
}

/// Proves: I-values
#[test]
fn without_an_override_all_are_in_the_release_s_namespace() {
    let contract = ["--set", "service.contract=a: 1"];
    let overridden = [&contract[..], &["--set", "namespaceOverride=ops"]].concat();
    let usual = documents(&manifests("ops", &contract));
    assert_eq!(usual, objects(&overridden));
    assert_eq!(the(&usual, "Deployment")["metadata"]["namespace"], "ops");
}

/// Proves: I-values
#[test]
fn the_service_may_have_two_ip_families() {
    let families = "metrics.service.ipFamilies={IPv6,IPv4}";
    let dual = format!("metrics.service.ipFamilyPolicy=RequireDualStack,{families}");
    let dual = with(&dual);
    let spec = &the(&dual, "Service")["spec"];
    assert_eq!(spec["ipFamilyPolicy"], "RequireDualStack");
    assert_eq!(spec["ipFamilies"], json!(["IPv6", "IPv4"]));
    let usual = objects(&[]);
    let spec = &the(&usual, "Service")["spec"];
    assert!(spec.get("ipFamilyPolicy").is_none() && spec.get("ipFamilies").is_none());
}

/// Proves: I-values
#[test]
fn further_containers_and_labels_are_beside_the_operator_s_own() {
    let full = with_file("full");
    let spec = &pod(&full)["spec"];
    assert_eq!(spec["containers"][0]["name"], "run-operator");
    assert_eq!(spec["containers"][1]["name"], "beside");
    let image = format!("registry.example.com/beside:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(spec["containers"][1]["image"], image);
    assert_eq!(spec["initContainers"][0]["name"], "first");
    let tests = &the(&full, "Pod")["spec"];
    assert_eq!(tests["containers"].as_array().unwrap().len(), 1);
    assert!(tests.get("initContainers").is_none());
    let accounts = of_kind(&full, "ServiceAccount");
    let owner = |a: &&&Value| a["metadata"]["annotations"]["example.com/owner"] == "platform";
    assert_eq!(accounts.iter().filter(owner).count(), 1);
    let mut accounts = accounts.iter();
    assert!(accounts.all(|a| a["automountServiceAccountToken"] == false));
    assert_eq!(spec["automountServiceAccountToken"], true);
}

/// Proves: I-values
#[test]
fn every_object_has_the_common_labels_and_annotations() {
    let mut full = with_file("full");
    // Those of the user are the user's.
    full.retain(|o| !o["metadata"]["name"].as_str().unwrap().contains("-extra"));
    assert!(full.len() > 30, "{}", full.len());
    for object in full.iter().chain([pod(&full)]) {
        let metadata = &object["metadata"];
        assert_eq!(metadata["labels"]["team"], "platform", "{metadata}");
        let annotations = &metadata["annotations"];
        assert_eq!(annotations["example.com/team"], "platform", "{metadata}");
    }
}

/// Proves: I-values
#[test]
fn what_a_platform_sets_is_in_the_pod_and_its_deployment() {
    let full = with_file("full");
    let deployment = &the(&full, "Deployment")["spec"];
    let half = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}});
    assert_eq!(deployment["strategy"], half);
    let budget = &the(&full, "PodDisruptionBudget")["spec"];
    assert_eq!(budget["unhealthyPodEvictionPolicy"], "AlwaysAllow");
    for spec in [&pod(&full)["spec"], &the(&full, "Pod")["spec"]] {
        assert_eq!(spec["schedulerName"], "platform-scheduler");
        assert_eq!(spec["hostUsers"], false);
        let from = json!([{"configMapRef": {"name": "environment"}}]);
        assert_eq!(spec["containers"][0]["envFrom"], from);
    }
    let probe = &pod(&full)["spec"]["containers"][0]["startupProbe"];
    assert_eq!(probe["httpGet"]["path"], "/healthz");
    assert_eq!(probe["failureThreshold"], 30);
    let usual = pod(&objects(&[]))["spec"].to_string();
    for unset in ["schedulerName", "hostUsers", "envFrom", "startupProbe"] {
        assert!(!usual.contains(unset), "{unset}");
    }
}

/// Proves: I-values
#[test]
fn the_proxy_is_the_operator_s_and_that_of_its_test() {
    let through = with("service.proxy=http://proxy.example.com:3128");
    let flag = "--service-proxy=http://proxy.example.com:3128";
    assert!(args(&through).contains(&flag));
    assert!(texts(&the(&through, "Pod")["spec"]["containers"][0]["args"]).contains(&flag));
    assert!(!args(&objects(&[])).iter().any(|arg| arg.contains("proxy")));
}
