//! The effect of the values on the rendered objects.

use serde_json::{Value, json};

use crate::helm::{self, args, ci, container, objects, of_kind, pod, texts, the, with, with_file};

/// The objects of `helm test`, which live as long as it runs, and those of the release.
fn tests_and_installed(objects: Vec<Value>) -> (Vec<Value>, Vec<Value>) {
    let hook = |o: &Value| o["metadata"]["annotations"]["helm.sh/hook"] == "test";
    objects.into_iter().partition(hook)
}

/// Proves: I-values
#[test]
fn image_digest_overrides_tag_and_global_registry_the_charts() {
    let version = env!("CARGO_PKG_VERSION");
    let digest = format!("sha256:{}", "0".repeat(64));
    let both = format!("image.digest={digest},image.tag=x,image.registry=a.example");
    let shared = format!("{both},global.imageRegistry=b.example");
    for (set, image) in [
        (
            "image.registry=,image.pullPolicy=Never",
            format!("run-operator:{version}"),
        ),
        (&both, format!("a.example/run-operator@{digest}")),
        (&shared, format!("b.example/run-operator@{digest}")),
    ] {
        assert_eq!(container(&with(set))["image"], image, "{set}");
    }
}

/// Proves: I-values
#[test]
fn a_changed_contract_file_is_a_new_pod() {
    let (one, other) = (with("service.contract=a: 1"), with("service.contract=a: 2"));
    let sum = |objects: &[Value]| {
        let annotations = &pod(objects)["metadata"]["annotations"];
        annotations["checksum/contract"].clone()
    };
    assert_ne!(sum(&one), sum(&other));
    assert_eq!(the(&one, "ConfigMap")["data"]["contract.yaml"], "a: 1\n");
    assert_eq!(sum(&objects(&[])), Value::Null);
}

/// Proves: X-rbac
#[test]
fn an_empty_list_of_secrets_gives_no_right_to_any() {
    // In RBAC an empty list of names is every name.
    let none = ["--set-json", "tokenSecretNames=[]"];
    let rendered = objects(&[&none[..], &["--set", "rbac.aggregateRoles=false"]].concat());
    let (_, installed) = tests_and_installed(rendered);
    let rules = the(&installed, "ClusterRole")["rules"].clone();
    assert!(!rules.to_string().contains("secrets"), "{rules}");
}

/// Proves: X-rbac
#[test]
fn rbac_rules_for_secrets_and_leases_name_them_except_create() {
    for values in helm::CI.into_iter().filter(|values| *values != "bare") {
        let (tests, installed) = tests_and_installed(with_file(values));
        let of_the_operator: &[&str] = &["secrets", "leases"];
        let of_the_test: &[&str] = &["leases", "deployments", "namespaces"];
        for (objects, named) in [(installed, of_the_operator), (tests, of_the_test)] {
            let roles = [of_kind(&objects, "ClusterRole"), of_kind(&objects, "Role")].concat();
            for rule in roles.iter().flat_map(|r| r["rules"].as_array().unwrap()) {
                let (resources, verbs) = (texts(&rule["resources"]), texts(&rule["verbs"]));
                let of_any_name = resources == ["leases"] && verbs == ["create"];
                let restricted = resources.iter().any(|r| named.contains(r)) && !of_any_name;
                let names = rule.get("resourceNames").is_some();
                assert_eq!(names, restricted, "{values}: {rule}");
                assert!(!rule.to_string().contains('*'), "{values}: {rule}");
            }
        }
    }
}

/// Proves: I-values
#[test]
fn several_pods_elect_a_leader_and_are_spread_and_budgeted() {
    let one = objects(&[]);
    assert!(args(&one).contains(&"--leader-elect"));
    assert!(of_kind(&one, "PodDisruptionBudget").is_empty());
    let spread = |objects: &[Value]| pod(objects)["spec"]["topologySpreadConstraints"].clone();
    assert_eq!(spread(&one), Value::Null);
    let two = with_file("ha");
    assert_eq!(the(&two, "Deployment")["spec"]["replicas"], 2);
    let budget = &the(&two, "PodDisruptionBudget")["spec"];
    assert_eq!(budget["maxUnavailable"], 1);
    let labels = &the(&two, "Deployment")["spec"]["selector"];
    assert_eq!(budget["selector"], *labels);
    let places = ["topology.kubernetes.io/zone", "kubernetes.io/hostname"];
    let two = spread(&two);
    for (constraint, place) in two.as_array().unwrap().iter().zip(places) {
        assert_eq!(constraint["topologyKey"], place);
        assert_eq!(constraint["labelSelector"], *labels);
    }
    let own = r#"topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"b":"c"}}}]"#;
    let own = spread(&objects(&["--set-json", own]));
    assert_eq!(own[0]["labelSelector"], json!({"matchLabels": {"b": "c"}}));
    let without = "replicas=3,podDisruptionBudget.enabled=false";
    let none = ["--set-json", "topologySpreadConstraints=[]"];
    let plain = objects(&[&["--set", without][..], &none].concat());
    assert_eq!(the(&plain, "Deployment")["spec"]["replicas"], 3);
    assert!(of_kind(&plain, "PodDisruptionBudget").is_empty());
    assert_eq!(spread(&plain), Value::Null);
}

/// Proves: I-values
#[test]
fn lease_and_role_follow_the_releases_name() {
    let named = with("fullnameOverride=runs");
    assert!(args(&named).contains(&"--leader-elect-name=runs"));
    assert!(args(&named).contains(&"--leader-elect-namespace=run-operator"));
    let role = helm::named(&named, "Role", "runs-leader");
    assert_eq!(role["metadata"]["namespace"], "run-operator");
    assert_eq!(role["rules"][1]["resourceNames"], json!(["runs"]));
    let none = with("leaderElection.enabled=false");
    for word in ["run-operator-leader", "--leader-elect"] {
        assert!(!none.iter().any(|o| o.to_string().contains(word)), "{word}");
    }
}

/// Proves: X-rbac
#[test]
fn cluster_workspaces_add_only_their_rules_in_namespaced_mode() {
    let few = with("watchNamespaces={a},rbac.aggregateRoles=false");
    assert!(of_kind(&few, "ClusterRole").is_empty());
    let set = "watchNamespaces={a},clusterWorkspaces.enabled=true,rbac.aggregateRoles=false";
    let (_, both) = tests_and_installed(with(set));
    let cluster = the(&both, "ClusterRole")["rules"].as_array().unwrap();
    let resources = cluster.iter().flat_map(|r| texts(&r["resources"]));
    let theirs = "clusterworkspaces clusterworkspaces/status namespaces";
    assert_eq!(resources.collect::<Vec<_>>().join(" "), theirs);
    // Their Secrets are in the operator's own namespace, their Events in `default`.
    let mut roles = of_kind(&both, "Role");
    roles.retain(|r| r["metadata"]["name"] != "run-operator-leader");
    for (namespace, resource) in [("run-operator", "secrets"), ("default", "events")] {
        let mut own = roles.iter();
        let role = own.find(|r| r["metadata"]["namespace"] == namespace);
        let given = role.unwrap()["rules"].as_array().unwrap();
        assert_eq!(given.len(), 1, "{given:?}");
        assert_eq!(given[0]["resources"], json!([resource]));
    }
    // A release of the same name elsewhere has others there.
    let elsewhere = helm::documents(&helm::manifests("ops", &["--set", set]));
    for name in ["ops:run-operator", "ops:run-operator-events"] {
        helm::named(&elsewhere, "Role", name);
    }
}

/// Proves: X-rbac, I-values
#[test]
fn schedules_add_their_flag_and_their_rules_and_nothing_else() {
    for place in [
        "rbac.aggregateRoles=false",
        "watchNamespaces={a},rbac.aggregateRoles=false",
    ] {
        let without = with(place);
        let with = with(&format!("{place},schedules.enabled=true"));
        let flag = |objects: &[Value]| args(objects).contains(&"--schedules");
        assert!(flag(&with) && !flag(&without), "{place}");
        let rules = |objects: &[Value]| {
            let (_, installed) = tests_and_installed(objects.to_vec());
            let mut roles = of_kind(&installed, "ClusterRole");
            roles.extend(of_kind(&installed, "Role"));
            let all = roles.iter().flat_map(|r| r["rules"].as_array().unwrap());
            all.map(ToString::to_string).collect::<Vec<_>>()
        };
        let before = rules(&without);
        let mut added = rules(&with);
        added.retain(|rule| !before.contains(rule));
        let expected = [
            (
                json!(["runschedules", "runtemplates"]),
                json!(["list", "watch"]),
            ),
            (json!(["runschedules/status"]), json!(["patch"])),
            (json!(["runs"]), json!(["create"])),
            (json!(["runschedules/finalizers"]), json!(["update"])),
        ];
        let expected = expected.map(|(resources, verbs)| {
            let group = ["run-operator.dev"];
            json!({"apiGroups": group, "resources": resources, "verbs": verbs}).to_string()
        });
        assert_eq!(added, expected, "{place}");
    }
}

/// Proves: I-values
#[test]
fn namespaces_are_labels_of_the_metrics_only_where_that_is_set() {
    let flag = |objects: &[Value]| args(objects).contains(&"--metrics-namespace-label");
    assert!(!flag(&objects(&[])));
    assert!(flag(&with("metrics.namespaceLabel=true")));
}

/// Proves: X-rbac
#[test]
fn only_the_operator_may_write_a_status() {
    let objects = objects(&[]);
    let mut aggregated = of_kind(&objects, "ClusterRole");
    aggregated.retain(|r| r["metadata"]["labels"].to_string().contains("aggregate-to"));
    assert_eq!(aggregated.len(), 3);
    for role in aggregated {
        let given = role["rules"].to_string();
        let too_much = given.contains("/status") || given.contains("secrets");
        assert!(!too_much, "{given}");
    }
    let may_write = |suffix: &str, resource: &str| {
        let name = format!("run-operator-{suffix}");
        let role = helm::named(&objects, "ClusterRole", &name);
        let mut given = role["rules"].as_array().unwrap().iter();
        given.any(|r| {
            texts(&r["resources"]).contains(&resource) && texts(&r["verbs"]).contains(&"create")
        })
    };
    assert!(may_write("edit", "runs") && may_write("admin", "workspaces"));
    assert!(may_write("edit", "runschedules") && may_write("edit", "runtemplates"));
    assert!(!may_write("view", "runs") && !may_write("edit", "workspaces"));
    assert!(!may_write("admin", "clusterworkspaces"));
}

/// Proves: I-crds
#[test]
fn crds_outlive_the_release_unless_configured_otherwise() {
    let kinds = [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "CustomResourceDefinition",
    ];
    let kept = |args: &[&str]| -> Vec<bool> {
        let objects = objects(args);
        let those = kinds.iter().flat_map(|kind| of_kind(&objects, kind));
        let kept = |o: &Value| o["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep";
        those.map(kept).collect()
    };
    assert_eq!(kept(&[]), [true; 7]);
    assert_eq!(kept(&["--set", "crds.keep=false"]), [false; 7]);
    assert!(kept(&["--set", "crds.enabled=false"]).is_empty());
}

/// Proves: I-status-policy
#[test]
fn the_workload_policy_has_a_switch_of_its_own() {
    for (set, count) in [
        ("crds.enabled=true", 1),
        ("crds.enabled=false", 0),
        ("workloadPolicy.enabled=false", 0),
        ("crds.enabled=false,workloadPolicy.enabled=true", 1),
    ] {
        let objects = with(set);
        for kind in [
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        ] {
            assert_eq!(of_kind(&objects, kind).len(), count, "{set}: {kind}");
        }
    }
}

/// Peers and ports of each rule of a network policy.
fn rules<'a>(policy: &'a Value, way: &str, peers: &str) -> Vec<(&'a Value, String)> {
    let rules = policy["spec"][way].as_array().into_iter().flatten();
    let with_ports = |rule: &'a Value| {
        let ports = rule["ports"].as_array().into_iter().flatten();
        let ports: Vec<String> = ports.map(|p| p["port"].to_string()).collect();
        (&rule[peers], ports.join(" "))
    };
    rules.map(with_ports).collect()
}

/// Proves: I-pod, X-secure-metrics
#[test]
fn the_network_policy_limits_ingress_and_egress() {
    let full = with_file("full");
    let policy = the(&full, "NetworkPolicy");
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    let monitoring = json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]);
    let ingress = rules(policy, "ingress", "from");
    assert_eq!(ingress[0], (&monitoring, "\"https\"".to_owned()));
    let plain = objects(&["-f", &ci("full"), "--set", "metrics.secure.enabled=false"]);
    let ingress = rules(the(&plain, "NetworkPolicy"), "ingress", "from");
    assert_eq!(ingress[0], (&monitoring, "\"http\"".to_owned()));
    let egress = rules(policy, "egress", "to");
    let ports: Vec<&str> = egress.iter().map(|(_, ports)| ports.as_str()).collect();
    assert_eq!(ports, ["53 53 5353 5353", "443 6443", "443 8443 3128", ""]);
    assert!(egress.iter().all(|(to, _)| to.is_array()), "{egress:?}");
    let dns = &egress[0].0[0]["podSelector"];
    assert_eq!(dns["matchLabels"]["k8s-app"], "kube-dns");
    assert_eq!(*egress[1].0, json!([{"ipBlock": {"cidr": "10.0.0.1/32"}}]));
    assert_eq!(*egress[2].0, json!([{"ipBlock": {"cidr": "192.0.2.0/24"}}]));
    let usual_port = ["--set", "service.proxy=http://10.0.0.1/"];
    let usual_port = objects(&[&["-f", &ci("full")][..], &usual_port].concat());
    let egress = rules(the(&usual_port, "NetworkPolicy"), "egress", "to");
    assert_eq!(egress[2].1, "443 8443 80");

    // No peer is named, so none is allowed in. A rule without peers would allow all.
    let shared = with_file("shared");
    let policy = the(&shared, "NetworkPolicy");
    assert_eq!(rules(policy, "ingress", "from"), []);
    assert_eq!(rules(policy, "egress", "to").len(), 2, "without DNS");
}

/// Proves: I-doctor
#[test]
fn the_test_of_the_release_may_only_read() {
    for values in helm::CI.into_iter().filter(|values| *values != "bare") {
        let objects = with_file(values);
        let own = |kind: &str| {
            let mut found = of_kind(&objects, kind);
            found.retain(|o| o["metadata"]["name"].as_str().unwrap().ends_with("-test"));
            found
        };
        let roles = [own("Role"), own("ClusterRole")].concat();
        assert!(!roles.is_empty(), "{values}");
        for rule in roles.iter().flat_map(|r| r["rules"].as_array().unwrap()) {
            let asked = texts(&rule["verbs"]);
            let reads = |verb: &&str| ["get", "list"].contains(verb);
            assert!(asked.iter().all(reads), "{rule}");
        }
        let shared = usize::from(!["namespaced", "shared"].contains(&values));
        assert_eq!(own("ClusterRoleBinding").len(), shared, "{values}");
        let pod = the(&objects, "Pod");
        let accounts = own("ServiceAccount");
        assert_eq!(accounts.len(), 1, "{values}");
        let account = &accounts[0]["metadata"]["name"];
        assert_eq!(pod["spec"]["serviceAccountName"], *account, "{values}");
        let args = texts(&pod["spec"]["containers"][0]["args"]);
        assert_eq!(args[0], "check");
    }
}

fn notes(args: &[&str]) -> String {
    let mut command = helm::command();
    command.args(["install", "run-operator"]).arg(helm::chart());
    command.args(["--dry-run=client", "--namespace", "run-operator"]);
    command.args(["-f", &ci("default")]);
    let told = helm::done(&command.args(args).output().unwrap());
    told.split_once("NOTES:").unwrap().1.to_owned()
}

/// Proves: I-values, I-status-policy
#[test]
fn the_notes_say_what_is_missing() {
    let elsewhere = "service.baseURL=,service.allowedBaseURLs={https://a.example/v1}";
    for (set, words) in [
        (elsewhere, r#"spec: {"baseURL":"https://a.example/v1"}"#),
        (
            "tokenSecretNames={mine}",
            r#"spec: {"tokenSecretRef":{"name":"mine"}}"#,
        ),
        ("replicas=0", "STOPPED"),
        ("replicas=2", "get lease run-operator"),
        ("crds.keep=false", "deletes every Run"),
        ("workloadPolicy.enabled=true", "refuses a change"),
        ("workloadPolicy.enabled=false", "not in this release"),
        ("statusPolicy.enabled=true", "only the operator"),
        ("finalizerPolicy.enabled=true", "finalizerPolicy "),
        (
            "schedules.enabled=true",
            "kubectl delete runschedules.run-operator.dev --all --all-namespaces",
        ),
    ] {
        let told = notes(&["--set", set]);
        assert!(told.contains(words), "{set}: {told}");
    }
    let told = notes(&["--set-json", "tokenSecretNames=[]"]);
    assert!(
        told.contains("MISSING: tokenSecretNames is empty"),
        "{told}"
    );
    let usual = notes(&[]);
    for word in ["MISSING", "statusPolicy", "finalizerPolicy", "runschedules"] {
        assert!(!usual.contains(word), "{word}");
    }
}

/// Other namespaces may be another operator's.
/// Proves: I-values
#[test]
fn the_notes_of_a_namespaced_release_delete_nothing_elsewhere() {
    let (few, usual) = (notes(&["--set", "watchNamespaces={a,b}"]), notes(&[]));
    for namespace in ["a", "b"] {
        let kinds = "runs.run-operator.dev,workspaces.run-operator.dev";
        let delete = format!("kubectl -n {namespace} delete {kinds} --all\n");
        assert!(few.contains(&delete), "{few}");
    }
    for word in ["--all-namespaces", "delete clusterworkspaces"] {
        assert!(!few.contains(word), "{few}");
        assert!(usual.contains(word), "{usual}");
    }
}
