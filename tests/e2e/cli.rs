//! Wrong flags end the program at once: one clear line, exit code 2.

use std::process::Command;

use rstest::rstest;

use crate::support::{contract_file, says};

/// The program without a cluster: what is wrong must be found before one is looked for.
fn program(args: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_run-operator"));
    program
        .args(args)
        .env_clear()
        .env("KUBECONFIG", "/nonexistent/kubeconfig");
    program
}

#[track_caller]
fn refused(program: &mut Command, words: &[&str]) {
    let output = program.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert_eq!(told.lines().count(), 1, "not one line: {told}");
    assert!(told.starts_with("run-operator: "), "{told}");
    says(&told, words);
    assert!(!told.contains("PASSWORD"), "{told}");
    assert!(output.stdout.is_empty());
}

/// Proves: P-flags
#[rstest]
#[case::of_an_unknown_name(&["--base-ulr", "https://runs.example.com/api/v1"], &["--base-ulr", "see run-operator controller --help"])]
#[case::without_its_value(&["--base-url"], &["--base-url", "value"])]
#[case::with_an_unknown_form(&["--log-format", "xml"], &["xml", "--log-format", "text, json"])]
#[case::with_no_number(&["--max-streams", "many"], &["many", "--max-streams"])]
#[case::with_a_number_too_small(&["--max-concurrent-reconciles", "0"], &["--max-concurrent-reconciles"])]
#[case::with_no_duration(&["--poll-min", "soon"], &["--poll-min", "is no duration", "500ms"])]
#[case::with_a_duration_too_short(&["--poll-min", "1ms"], &["--poll-min", "too short", "10ms"])]
#[case::with_a_watch_too_long(&["--watch-timeout", "5m"], &["--watch-timeout", "not within 1s and 290s"])]
#[case::with_intervals_in_the_wrong_order(&["--poll-min", "10s", "--poll-max", "5s"], &["--poll-min", "longer than"])]
#[case::with_no_address(&["--listen", ":8080"], &["--listen", ":8080", "[::]:8080"])]
#[case::with_no_address_of_the_metrics(&["--metrics-listen", "8443"], &["--metrics-listen", "8443", "[::]:8080"])]
#[case::with_a_certificate_and_no_key(&["--metrics-listen", "127.0.0.1:0", "--metrics-cert", "a"], &["--metrics-key"])]
#[case::with_a_certificate_for_no_listener(&["--metrics-cert", "a", "--metrics-key", "b"], &["--metrics-listen"])]
#[case::with_a_certificate_that_can_t_be_read(&["--metrics-listen", "127.0.0.1:0", "--metrics-cert", "/nonexistent/tls.crt", "--metrics-key", "/nonexistent/tls.key"], &["metrics over TLS", "/nonexistent/tls.crt"])]
#[case::with_a_filter_that_is_none(&["--log-filter", "run_operator=loud"], &["--log-filter", "run_operator=loud"])]
#[case::with_a_relative_url(&["--base-url", "/api/v1"], &["--base-url", "failed to parse the base URL"])]
#[case::with_a_query_in_the_url(&["--allowed-base-url", "https://runs.example.com/api/v1?key=secret"], &["--allowed-base-url number 1", "query or a fragment"])]
#[case::with_one_of_several_urls(&["--base-url", "https://runs.example.com/api/v1", "--allowed-base-url", "https://a.example/v1,ftp://b.example/v1"], &["--allowed-base-url number 2", "https://"])]
#[case::with_a_proxy_that_is_no_address(&["--service-proxy", "proxy.example:3128"], &["--service-proxy", "http://proxy.example.com:3128"])]
#[case::with_a_proxy_by_tls(&["--service-proxy", "https://proxy.example"], &["--service-proxy", "http://proxy.example.com:3128"])]
#[case::with_a_proxy_with_a_path(&["--service-proxy", "http://proxy.example/runs"], &["--service-proxy", "http://proxy.example.com:3128"])]
#[case::with_a_proxy_and_its_password(&["--service-proxy", "http://me:PASSWORD@proxy.example"], &["--service-proxy", "a user name or a password"])]
#[case::with_an_empty_proxy(&["--service-proxy="], &["--service-proxy", "value is empty"])]
#[case::with_a_namespace_that_can_t_be(&["--namespace", "Team_A"], &["--namespace", "Team_A", "lower-case"])]
#[case::with_half_a_second_of_a_lease(&["--leader-elect-lease-duration", "1500ms"], &["--leader-elect-lease-duration", "whole seconds", "1.5s"])]
#[case::with_a_lease_shorter_than_its_renewal(&["--leader-elect", "--leader-elect-lease-duration", "10s"], &["--leader-elect-lease-duration", "lease duration (10s) must be longer than the renew deadline (10s)"])]
#[case::with_no_room_to_renew_again(&["--leader-elect", "--leader-elect-retry-period", "9s"], &["--leader-elect-retry-period", "1.2 times the retry period (9s)"])]
#[case::with_a_lease_that_can_t_be_named_so(&["--leader-elect-name", "Mine"], &["--leader-elect-name", "Mine", "lower-case"])]
#[case::with_a_lease_in_a_namespace_that_can_t_be(&["--leader-elect-namespace", "Team_A"], &["--leader-elect-namespace", "Team_A"])]
#[case::with_an_empty_namespace(&["--namespace", ""], &["--namespace", "value is empty", "not set"])]
#[case::with_an_empty_one_of_several_namespaces(&["--namespace", "a,,b"], &["--namespace", "value is empty"])]
#[case::with_a_blank_namespace(&["--namespace", " "], &["--namespace", "value is empty"])]
#[case::with_an_empty_base_url(&["--base-url", ""], &["--base-url", "value is empty"])]
#[case::with_a_path_behind_a_console_origin(&["--console-origin", "https://console.example.com/runs"], &["--console-origin", "is no origin", "as in https://console.example.com"])]
#[case::with_an_empty_allowed_base_url(&["--allowed-base-url="], &["--allowed-base-url", "value is empty"])]
#[case::with_an_empty_namespace_of_secrets(&["--cluster-resource-namespace", ""], &["--cluster-resource-namespace", "value is empty"])]
#[case::with_an_empty_namespace_of_the_lease(&["--leader-elect-namespace="], &["--leader-elect-namespace", "value is empty"])]
#[case::with_an_empty_name_of_the_lease(&["--leader-elect-name="], &["--leader-elect-name", "value is empty"])]
#[case::with_an_empty_filter(&["--log-filter="], &["--log-filter", "value is empty"])]
#[case::with_an_empty_path(&["--contract="], &["--contract", "value"])]
#[case::with_no_contract_file(&["--contract", "/nonexistent/profile.yaml"], &["failed to read the contract file /nonexistent/profile.yaml", "No such file"])]
fn a_flag_is_refused_in_one_line(#[case] args: &[&str], #[case] words: &[&str]) {
    refused(program(&["controller"]).args(args), words);
}

/// Kubernetes sets a variable whose value is empty.
/// Proves: P-flags
#[test]
fn an_empty_variable_is_refused_in_one_line() {
    for (name, flag) in [
        ("NAMESPACE", "--namespace"),
        ("BASE_URL", "--base-url"),
        ("ALLOWED_BASE_URL", "--allowed-base-url"),
        ("CONSOLE_ORIGIN", "--console-origin"),
        ("CLUSTER_RESOURCE_NAMESPACE", "--cluster-resource-namespace"),
        ("LEADER_ELECT_NAMESPACE", "--leader-elect-namespace"),
    ] {
        let variable = format!("RUN_OPERATOR_{name}");
        let words = [flag, "value is empty"];
        refused(program(&["controller"]).env(variable, ""), &words);
    }
}

/// Proves: P-flags
#[test]
fn check_refuses_an_empty_namespace_too() {
    let words = ["--namespace", "value is empty"];
    refused(&mut program(&["check", "--namespace="]), &words);
}

/// What else is refused is proved in `policy`.
/// Proves: P-flags, L-contract
#[rstest]
#[case::that_is_no_yaml("no-yaml", "keyRetentionSeconds: [")]
#[case::with_an_unknown_field("unknown", "keyRetention: 86400")]
fn a_contract_file_is_refused_in_one_line(#[case] name: &str, #[case] with: &str) {
    let changes = [("keyRetentionSeconds: 86400", with)];
    let path = contract_file(&format!("cli-{name}"), &changes);
    let told = format!("failed to use the contract file {path}");
    refused(program(&["controller", "--contract"]).arg(path), &[&told]);
}
