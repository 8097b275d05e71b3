//! Where the objects and the Pods go: namespace, nodes, number, addresses, and what is beside them.

use serde_json::{Value, json};

use crate::helm::{args, documents, manifests, objects, of_kind, pod, the, with, with_file};

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
    let chosen = "nodeSelector.kubernetes\\.io/arch=s390x";
    for none in ["architectures=null", chosen] {
        let any = with(none);
        assert_eq!(pod(&any)["spec"].get("affinity"), None, "{none}");
    }
}

/// Proves: I-values
#[test]
fn the_architectures_join_every_term_that_names_none() {
    let platform = with_file("platform");
    let arm = json!({"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]});
    let terms = json!([
        {"matchExpressions": [{"key": "example.com/zone", "operator": "Exists"}, arm]},
        {
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}],
            "matchExpressions": [arm],
        },
    ]);
    assert_eq!(*required(&pod(&platform)["spec"]), terms);
    // The user's own answer stays, and so does what is no node affinity.
    let given = json!({
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [],
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["s390x"]}]},
            ]},
        },
    });
    let own = objects(&["--set-json", &format!("affinity={given}")]);
    assert_eq!(pod(&own)["spec"]["affinity"], given);
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
    let set = "namespaceOverride=ops,statusPolicy.enabled=true,defaultWorkspace.enabled=true,contract=a: 1,\
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
    let contract = ["--set", "contract=a: 1"];
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
    let owner = |a: &&&Value| a["metadata"]["labels"]["example.com/owner"] == "platform";
    assert_eq!(accounts.iter().filter(owner).count(), 1);
    let mut accounts = accounts.iter();
    assert!(accounts.all(|a| a["automountServiceAccountToken"] == false));
    assert_eq!(spec["automountServiceAccountToken"], true);
}
