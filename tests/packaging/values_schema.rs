//! Values that the schema refuses, with a message that names the value, and values that it must accept.

use rstest::rstest;
use serde_json::json;

use crate::helm::{self, ci};
use test_cluster::Scratch;

/// Proves: I-values, X-rbac, I-pod
#[rstest]
#[case::a_misspelt_one(&["--set", "service.bsaeURL=https://a.example/v1"], &["/service", "bsaeURL", "not allowed"])]
#[case::a_misspelt_one_further_down(&["--set", "image.pulPolicy=Always"], &["/image", "pulPolicy", "not allowed"])]
#[case::fewer_than_no_pods(&["--set", "replicas=-1"], &["/replicas", "minimum"])]
#[case::two_pods_that_both_act(&["--set", "replicas=2,leaderElection.enabled=false"], &["replicas is 2", "leaderElection.enabled"])]
#[case::one_port_twice(&["--set", "metrics.secure.enabled=true,listen.port=8443"], &["metrics.secure.port", "port of their own"])]
#[case::a_pod_monitor_without_a_token(&["--set", "metrics.secure.enabled=true,metrics.podMonitor.enabled=true"], &["metrics.secure.tokenSecret.name"])]
#[case::a_monitor_far_from_the_ca(&["--set", "metrics.secure.enabled=true,metrics.secure.certSecretName=a,metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.namespace=monitoring"], &["metrics.secure.tlsConfig", "namespace monitoring", "release-run-operator-metrics.release.svc"])]
#[case::a_namespace_of_every_object_that_can_t_be(&["--set", "namespaceOverride=Team_A"], &["/namespaceOverride", "pattern"])]
#[case::a_container_without_a_name(&["--set", "extraContainers[0].image=a"], &["/extraContainers/0", "name"])]
#[case::an_ip_family_that_is_none(&["--set", "metrics.service.ipFamilies={IPv5}"], &["/metrics/service/ipFamilies/0", "IPv6"])]
#[case::half_a_second_of_a_lease(&["--set", "leaderElection.leaseDuration=1500ms"], &["/leaderElection/leaseDuration", "pattern"])]
#[case::a_number_as_text(&["--set-string", "replicas=1"], &["/replicas", "want integer"])]
#[case::a_relative_url(&["--set", "service.baseURL=runs.example.com"], &["/service/baseURL", "pattern"])]
#[case::no_base_url(&["--set", "service.baseURL="], &["service.baseURL is not set", "service.allowedBaseURLs"])]
#[case::no_registry(&["--set", "image.registry="], &["image.registry is not set", "run-operator:", "image.pullPolicy to Never"])]
#[case::a_path_in_no_registry(&["--set", "image.registry=,image.repository=platform/run-operator"], &["image.registry is not set"])]
#[case::a_monitor_without_metrics(&["--set", "metrics.enabled=false,metrics.serviceMonitor.enabled=true"], &["metrics.serviceMonitor.enabled is true", "set metrics.enabled to true"])]
#[case::alerts_without_metrics(&["--set", "metrics.enabled=false,metrics.prometheusRule.enabled=true"], &["metrics.prometheusRule.enabled is true"])]
#[case::alerts_of_tenants_without_the_rule(&["--set", "metrics.prometheusRule.tenantAlerts=true"], &["metrics.prometheusRule.enabled", "set it to true"])]
#[case::an_alert_that_is_none(&["--set", "metrics.prometheusRule.enabled=true,metrics.prometheusRule.disabled={Absent}"], &["metrics.prometheusRule.disabled", "Absent", "RunOperatorAbsent"])]
#[case::a_threshold_of_an_alert_without_one(&["--set", "metrics.prometheusRule.enabled=true,metrics.prometheusRule.alerts.RunOperatorAbsent.threshold=2"], &["metrics.prometheusRule.alerts.RunOperatorAbsent.threshold"])]
#[case::a_test_where_nobody_watches(&["--set", "watchNamespaces={a},test.namespace=b"], &["test.namespace is b", "watchNamespaces"])]
#[case::another_scheme(&["--set", "service.allowedBaseURLs={ftp://a.example/v1}"], &["/service/allowedBaseURLs/0", "pattern"])]
#[case::two_urls_in_one(&["--set-json", r#"service.allowedBaseURLs=["https://a.example,https://b.example"]"#], &["/service/allowedBaseURLs/0", "pattern"])]
#[case::a_console_with_a_path(&["--set", "service.consoleOrigins={https://a.example/runs}"], &["/service/consoleOrigins/0", "pattern"])]
#[case::a_word_for_yes(&["--set-string", "crds.keep=yes"], &["/crds/keep", "want boolean"])]
#[case::a_short_digest(&["--set", "image.digest=sha256:0e072d"], &["/image/digest", "pattern"])]
#[case::a_tag_with_a_blank(&["--set", "image.tag=1 0"], &["/image/tag", "pattern"])]
#[case::a_registry_with_a_scheme(&["--set", "image.registry=https://registry.example.com"], &["/image/registry", "pattern"])]
#[case::no_repository(&["--set", "image.repository="], &["/image/repository"])]
#[case::an_unknown_pull_policy(&["--set", "image.pullPolicy=Sometimes"], &["/image/pullPolicy", "Always", "Never"])]
#[case::an_unknown_form_of_the_log(&["--set", "logging.format=xml"], &["/logging/format", "text", "json"])]
#[case::no_duration(&["--set", "poll.min=soon"], &["/poll/min", "pattern"])]
#[case::a_watch_too_long(&["--set", "watchTimeout=291s"], &["/watchTimeout", "pattern"])]
#[case::a_namespace_that_can_t_be(&["--set", "watchNamespaces={Team_A}"], &["/watchNamespaces/0", "pattern"])]
#[case::a_namespace_twice(&["--set", "watchNamespaces={a,a}"], &["/watchNamespaces", "equal"])]
#[case::a_name_where_a_list_belongs(&["--set", "tokenSecretNames=mine"], &["/tokenSecretNames", "want array"])]
#[case::every_secret(&["--set", "tokenSecretNames={*}"], &["/tokenSecretNames/0", "pattern"])]
#[case::no_streams_at_all(&["--set", "maxStreams=-1"], &["/maxStreams", "minimum"])]
#[case::no_reconciles(&["--set", "maxConcurrentReconciles=0"], &["/maxConcurrentReconciles", "minimum"])]
#[case::a_name_to_listen_at(&["--set", "listen.address=localhost"], &["/listen/address", "pattern"])]
#[case::a_port_that_is_none(&["--set", "listen.port=70000"], &["/listen/port", "maximum"])]
#[case::a_variable_without_a_name(&["--set", "extraEnv[0].value=x"], &["/extraEnv/0", "name"])]
#[case::a_label_that_is_no_text(&["--set", "podLabels.a=1"], &["/podLabels/a", "want string"])]
#[case::both_monitors(&["--set", "metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true"], &["metrics.podMonitor.enabled", "twice"])]
#[case::a_monitor_of_no_service(&["--set", "metrics.serviceMonitor.enabled=true,metrics.service.enabled=false"], &["metrics.service.enabled", "podMonitor"])]
#[case::a_password_in_a_url(&["--set", "service.baseURL=https://me:secret@a.example/v1"], &["/service/baseURL", "pattern"])]
#[case::a_query_in_a_url(&["--set", "service.allowedBaseURLs={https://a.example/v1?x=1}"], &["/service/allowedBaseURLs/0", "pattern"])]
#[case::plain_http(&["--set", "service.baseURL=http://a.example/v1"], &["http://a.example/v1", "use https", "service.allowInsecureHTTP"])]
#[case::plain_http_to_what_only_looks_like_this_machine(&["--set", "service.allowedBaseURLs={http://127.0.0.1.example.com/v1}"], &["allowedBaseURLs", "plain http"])]
#[case::a_path_where_the_contract_s_content_belongs(&["--set", "service.contract=profile.yaml"], &["service.contract", "--set-file"])]
#[case::an_account_that_every_pod_has(&["--set", "serviceAccount.create=false"], &["serviceAccount.create is false", "set serviceAccount.name"])]
#[case::that_account_by_its_name(&["--set", "serviceAccount.create=false,serviceAccount.name=default"], &["serviceAccount.name is default", "account of the operator's own"])]
#[case::that_account_as_the_chart_s(&["--set", "serviceAccount.name=default"], &["serviceAccount.name is default"])]
#[case::a_network_without_the_api_server(&["--set", "networkPolicy.enabled=true"], &["networkPolicy.egress.apiServerTo", "endpointslices"])]
#[case::a_network_without_the_service(&["--set-json", r#"networkPolicy={"enabled":true,"egress":{"apiServerTo":[{"ipBlock":{"cidr":"10.0.0.1/32"}}]}}"#], &["networkPolicy.egress.serviceTo"])]
#[case::a_peer_that_is_everybody(&["--set-json", r"networkPolicy.ingress.from=[{}]"], &["/networkPolicy/ingress/from/0", "minProperties"])]
#[case::a_monitor_that_is_not_let_in(&["-f", &ci("shared"), "--set", "metrics.serviceMonitor.enabled=true"], &["networkPolicy.ingress.from", "Prometheus could not scrape"])]
#[case::two_bounds_of_one_budget(&["--set", "replicas=2,podDisruptionBudget.minAvailable=1,podDisruptionBudget.maxUnavailable=1"], &["podDisruptionBudget", "not both"])]
fn a_wrong_value_is_refused_by_its_name(#[case] args: &[&str], #[case] words: &[&str]) {
    helm::refused(args, words);
}

/// Proves: I-values
#[rstest]
#[case::to_this_machine(&["--set", "service.baseURL=http://127.0.0.1:8090/api/v1"])]
#[case::where_it_is_allowed(&["--set", "service.baseURL=http://a.example/v1,service.allowInsecureHTTP=true"])]
fn plain_http_passes(#[case] args: &[&str]) {
    assert!(!helm::objects(args).is_empty());
}

/// Proves: I-values
#[rstest]
#[case::a_registry_in_the_repository(&["--set", "image.registry=,image.repository=registry.example.com/acme/run-operator"])]
#[case::a_registry_with_a_port_in_the_repository(&["--set", "image.registry=,image.repository=registry.example.com:5000/acme/run-operator"])]
#[case::nodes_that_have_the_image(&["--set", "image.registry=,image.pullPolicy=Never"])]
#[case::a_base_url_of_each_workspace(&["--set", "service.baseURL=,service.allowedBaseURLs={https://a.example/v1}"])]
#[case::a_base_url_in_a_variable(&["--set", "service.baseURL=,extraEnv[0].name=RUN_OPERATOR_BASE_URL,extraEnv[0].value=https://a.example/v1"])]
#[case::a_base_url_in_a_flag(&["--set", "service.baseURL=,extraArgs={--base-url=https://a.example/v1}"])]
#[case::a_base_url_in_a_config_map(&["--set", "service.baseURL=,extraEnvFrom[0].configMapRef.name=a"])]
fn image_and_base_url_may_come_from_elsewhere(#[case] args: &[&str]) {
    assert!(!helm::objects(args).is_empty());
}

/// Proves: I-values
#[test]
fn a_parent_chart_may_share_values_and_switch_it_off() {
    let scratch = Scratch::new("parent").unwrap();
    let parent = scratch.path();
    let manifest = "apiVersion: v2\nname: parent\nversion: 1.0.0\ndependencies:\n  - name: run-operator\n    version: \">=0.0.0\"\n    condition: run-operator.enabled\n";
    std::fs::write(parent.join("Chart.yaml"), manifest).unwrap();
    std::fs::create_dir(parent.join("charts")).unwrap();
    std::os::unix::fs::symlink(helm::chart(), parent.join("charts/run-operator")).unwrap();
    let rendered = |args: &[&str]| {
        let output = helm::template(parent, "parent", "parent", args);
        helm::documents(&helm::done(&output))
    };
    let shared = "global.imageRegistry=mirror.example.com,global.imagePullSecrets[0].name=mirror,global.other=1";
    let own = "run-operator.enabled=true,run-operator.imagePullSecrets[0].name=own,\
               run-operator.service.baseURL=https://a.example/v1";
    let with = rendered(&["--set", shared, "--set", own]);
    let spec = &helm::pod(&with)["spec"];
    let image = spec["containers"][0]["image"].as_str().unwrap();
    assert!(image.starts_with("mirror.example.com/"), "{image}");
    let secrets = json!([{"name": "mirror"}, {"name": "own"}]);
    assert_eq!(spec["imagePullSecrets"], secrets);
    assert!(rendered(&["--set", "run-operator.enabled=false"]).is_empty());
}
