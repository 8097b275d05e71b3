//! Values of fields when an object is created.

use rstest::rstest;
use serde_json::{Value, json};

use crate::namespace::{Space, assert_refused};

fn run(field: &str, value: Value) -> Value {
    let mut spec = json!({"workload": {"image": "x"}});
    spec[field] = value;
    spec
}

fn numbered(count: usize) -> Value {
    (0..count).map(|n| n.to_string()).collect()
}

fn long(length: usize) -> Value {
    "x".repeat(length).into()
}

/// Proves: S-run
#[rstest]
#[case::no_workload(json!({}), "spec.workload", "Required value")]
#[case::workload_text(run("workload", json!("x")), "spec.workload", "must be of type object")]
#[case::workload_list(run("workload", json!(["x"])), "spec.workload", "must be of type object")]
#[case::workload_null(run("workload", Value::Null), "spec.workload", "Required value")]
#[case::no_image(run("workload", json!({"args": []})), "spec.workload.image", "Required value")]
#[case::image_number(run("workload", json!({"image": 1})), "spec.workload.image", "must be of type string")]
#[case::empty_image(run("workload", json!({"image": ""})), "spec.workload.image", "at least 1 chars")]
#[case::long_image(run("workload", json!({"image": long(2049)})), "spec.workload.image", "more than 2048")]
#[case::empty_provider(run("provider", json!("")), "spec.provider", "at least 1 chars")]
#[case::long_provider(run("provider", long(129)), "spec.provider", "more than 128")]
#[case::provider_line(run("provider", json!("a\nb")), "spec.provider", "should match")]
#[case::provider_number(run("provider", json!(1)), "spec.provider", "must be of type string")]
#[case::empty_region(run("region", json!("")), "spec.region", "at least 1 chars")]
#[case::long_region(run("region", long(129)), "spec.region", "more than 128")]
#[case::region_escape(run("region", json!("a\u{1b}")), "spec.region", "should match")]
#[case::suspend_text(run("suspend", json!("true")), "spec.suspend", "must be of type boolean")]
#[case::cancel_text(run("cancel", json!("yes")), "spec.cancel", "must be of type boolean")]
#[case::no_deadline(run("activeDeadlineSeconds", json!(0)), "spec.activeDeadlineSeconds", "greater than or equal to 1")]
#[case::far_deadline(
    run("activeDeadlineSeconds", json!(3_153_600_001_i64)), "spec.activeDeadlineSeconds", "less than or equal to"
)]
#[case::negative_ttl(run("ttlSecondsAfterFinished", json!(-1)), "spec.ttlSecondsAfterFinished", "greater than or equal to 0")]
#[case::ttl_of_33_bits(
    run("ttlSecondsAfterFinished", json!(4_294_967_296_i64)), "spec.ttlSecondsAfterFinished",
    "less than or equal to 2147483647"
)]
#[case::ttl_fraction(run("ttlSecondsAfterFinished", json!(1.5)), "spec.ttlSecondsAfterFinished", "must be of type int")]
#[case::low_priority(run("priority", json!(-1001)), "spec.priority", "greater than or equal to -1000")]
#[case::high_priority(run("priority", json!(1001)), "spec.priority", "less than or equal to 1000")]
#[case::priority_text(run("priority", json!("high")), "spec.priority", "must be of type int")]
#[case::manager_without_a_domain(run("managedBy", json!("queue")), "spec.managedBy", "should match")]
#[case::manager_with_a_space(run("managedBy", json!("a.example/my queue")), "spec.managedBy", "should match")]
#[case::short_manager(run("managedBy", json!("a/")), "spec.managedBy", "at least 3 chars")]
#[case::long_manager(run("managedBy", json!(format!("a/{}", "b".repeat(62)))), "spec.managedBy", "more than 63")]
#[case::deletion_policy(run("deletionPolicy", json!("Delete")), "spec.deletionPolicy", "supported values: \"Cancel\", \"Orphan\"")]
#[case::ready_when(run("readyWhen", json!("succeeded")), "spec.readyWhen", "supported values: \"Succeeded\", \"Accepted\"")]
#[case::empty_key(run("idempotencyKey", json!("")), "spec.idempotencyKey", "at least 1 chars")]
#[case::long_key(
    run("idempotencyKey", long(256)),
    "spec.idempotencyKey",
    "more than 255"
)]
#[case::key_that_ends_a_line(run("idempotencyKey", json!("a\n")), "spec.idempotencyKey", "should match")]
#[case::key_delete(run("idempotencyKey", json!("a\u{7f}")), "spec.idempotencyKey", "should match")]
#[case::no_workspace_name(run("workspaceRef", json!({"kind": "Workspace"})), "spec.workspaceRef.name", "Required value")]
#[case::workspace_kind(
    run("workspaceRef", json!({"kind": "Secret", "name": "a"})), "spec.workspaceRef.kind",
    "supported values: \"Workspace\", \"ClusterWorkspace\""
)]
#[case::workspace_name(run("workspaceRef", json!({"name": "A_b"})), "spec.workspaceRef.name", "should match")]
#[case::long_workspace_name(run("workspaceRef", json!({"name": long(254)})), "spec.workspaceRef.name", "more than 253")]
#[tokio::test]
async fn a_run_that_can_t_be_right_is_refused(
    #[case] spec: Value,
    #[case] path: &str,
    #[case] message: &str,
) {
    let space = Space::new().await;
    assert_refused(space.create("Run", "a", spec).await, path, message);
}

/// Proves: X-references
#[rstest]
#[case::long_url(json!({"baseURL": format!("https://a.example/{}", "x".repeat(500))}), "spec.baseURL", "more than 512")]
#[case::empty_id(json!({"workspaceID": ""}), "spec.workspaceID", "at least 1 chars")]
#[case::no_secret_name(json!({"tokenSecretRef": {"key": "token"}}), "spec.tokenSecretRef.name", "Required value")]
#[case::secret_name(json!({"tokenSecretRef": {"name": "a/b"}}), "spec.tokenSecretRef.name", "should match")]
#[case::secret_key(json!({"caSecretRef": {"name": "a", "key": "a/b"}}), "spec.caSecretRef.key", "should match")]
#[case::no_requests(json!({"rateLimit": {"requestsPerSecond": 0}}), "spec.rateLimit.requestsPerSecond", "greater than or equal to 1")]
#[case::too_many_requests(json!({"rateLimit": {"requestsPerSecond": 1001}}), "spec.rateLimit.requestsPerSecond", "less than or equal to 1000")]
#[case::no_burst(json!({"rateLimit": {"burst": 0}}), "spec.rateLimit.burst", "greater than or equal to 1")]
#[case::default_deadline(json!({"runDefaults": {"activeDeadlineSeconds": 0}}), "spec.runDefaults.activeDeadlineSeconds", "greater than or equal to 1")]
#[case::default_ttl(json!({"runDefaults": {"ttlSecondsAfterFinished": -1}}), "spec.runDefaults.ttlSecondsAfterFinished", "greater than or equal to 0")]
#[case::no_provider(json!({"allowedProviders": []}), "spec.allowedProviders", "at least 1 items")]
#[case::a_provider_twice(json!({"allowedProviders": ["a", "a"]}), "spec.allowedProviders[1]", "Duplicate value")]
#[case::too_many_regions(json!({"allowedRegions": numbered(65)}), "spec.allowedRegions", "at most 64 items")]
#[case::long_region(json!({"allowedRegions": [long(129)]}), "spec.allowedRegions[0]", "more than 128")]
#[case::region_escape(json!({"allowedRegions": ["a\u{1b}"]}), "spec.allowedRegions[0]", "should match")]
#[case::empty_image(json!({"allowedImages": [""]}), "spec.allowedImages[0]", "at least 1 chars")]
#[case::long_image(json!({"allowedImages": [long(2049)]}), "spec.allowedImages[0]", "more than 2048")]
#[case::negative_limit(json!({"maxActiveRuns": -1}), "spec.maxActiveRuns", "greater than or equal to 0")]
#[case::limit_of_33_bits(
    json!({"maxActiveRuns": 4_294_967_296_i64}), "spec.maxActiveRuns", "less than or equal to 2147483647"
)]
#[case::huge_burst(json!({"rateLimit": {"burst": 10001}}), "spec.rateLimit.burst", "less than or equal to 10000")]
#[tokio::test]
async fn a_workspace_that_can_t_be_right_is_refused(
    #[case] spec: Value,
    #[case] path: &str,
    #[case] message: &str,
) {
    let space = Space::new().await;
    assert_refused(space.create("Workspace", "a", spec).await, path, message);
}

fn schedule(field: &str, value: Value) -> Value {
    let mut spec =
        json!({"schedules": ["17 2 * * *"], "template": {"spec": {"workload": {"image": "x"}}}});
    spec[field] = value;
    spec
}

/// A schedule whose Runs have this field.
fn giving(field: &str, value: Value) -> Value {
    schedule("template", json!({"spec": run(field, value)}))
}

const EACH_RUNS_OWN: &str = "are not the schedule's to give";

/// Proves: P-schedule
#[rstest]
#[case::no_template(json!({"schedules": ["@daily"]}), "spec.template", "exactly one of template and templateRef")]
#[case::two_templates(schedule("templateRef", json!({"name": "a"})), "spec.template", "exactly one of template and templateRef")]
#[case::parameters_of_none(schedule("parameters", json!({"lr": "0.1"})), "spec.parameters", "they need templateRef")]
#[case::no_image(schedule("template", json!({"spec": {"workload": {}}})), "spec.template.spec.workload.image", "Required value")]
#[case::no_schedules(json!({"templateRef": {"name": "a"}}), "spec.schedules", "Required value")]
#[case::no_schedule(schedule("schedules", json!([])), "spec.schedules", "at least 1 items")]
#[case::nine_schedules(
    schedule("schedules", numbered(9)),
    "spec.schedules",
    "at most 8 items"
)]
#[case::a_schedule_twice(schedule("schedules", json!(["@daily", "@daily"])), "spec.schedules[1]", "Duplicate value")]
#[case::empty_schedule(schedule("schedules", json!([""])), "spec.schedules[0]", "at least 1 chars")]
#[case::long_schedule(schedule("schedules", json!([long(257)])), "spec.schedules[0]", "more than 256")]
#[case::empty_zone(schedule("timeZone", json!("")), "spec.timeZone", "at least 1 chars")]
#[case::long_zone(schedule("timeZone", long(65)), "spec.timeZone", "more than 64")]
#[case::suspend_text(schedule("suspend", json!("yes")), "spec.suspend", "must be of type boolean")]
#[case::concurrency(
    schedule("concurrencyPolicy", json!("Wait")), "spec.concurrencyPolicy",
    "supported values: \"Allow\", \"Forbid\", \"Replace\""
)]
#[case::catch_up(schedule("catchUp", json!("All")), "spec.catchUp", "supported values: \"Skip\", \"Latest\"")]
#[case::no_deadline(schedule("startingDeadlineSeconds", json!(0)), "spec.startingDeadlineSeconds", "greater than or equal to 1")]
#[case::no_limit_of_retries(schedule("retryPolicy", json!({})), "spec.retryPolicy.limit", "Required value")]
#[case::six_retries(schedule("retryPolicy", json!({"limit": 6})), "spec.retryPolicy.limit", "less than or equal to 5")]
#[case::no_backoff(
    schedule("retryPolicy", json!({"limit": 1, "backoffSeconds": 0})), "spec.retryPolicy.backoffSeconds",
    "greater than or equal to 1"
)]
#[case::long_backoff(
    schedule("retryPolicy", json!({"limit": 1, "backoffSeconds": 86_401})), "spec.retryPolicy.backoffSeconds",
    "less than or equal to 86400"
)]
#[case::negative_history(
    schedule("failedRunsHistoryLimit", json!(-1)), "spec.failedRunsHistoryLimit", "greater than or equal to 0"
)]
#[case::long_history(
    schedule("successfulRunsHistoryLimit", json!(1001)), "spec.successfulRunsHistoryLimit",
    "less than or equal to 1000"
)]
#[case::name_of_a_template(
    json!({"schedules": ["@daily"], "templateRef": {"name": "A_b"}}), "spec.templateRef.name", "should match"
)]
#[case::suspended_runs(giving("suspend", json!(true)), "spec.template.spec.suspend", EACH_RUNS_OWN)]
#[case::cancelled_runs(giving("cancel", json!(true)), "spec.template.spec.suspend", EACH_RUNS_OWN)]
#[case::one_key_for_all(giving("idempotencyKey", json!("a")), "spec.template.spec.suspend", EACH_RUNS_OWN)]
#[case::runs_of_another(giving("managedBy", json!("a.example/b")), "spec.template.spec.suspend", EACH_RUNS_OWN)]
#[case::low_priority(giving("priority", json!(-1001)), "spec.template.spec.priority", "greater than or equal to -1000")]
#[tokio::test]
async fn a_schedule_that_can_t_be_right_is_refused(
    #[case] spec: Value,
    #[case] path: &str,
    #[case] message: &str,
) {
    let space = Space::new().await;
    assert_refused(space.create("RunSchedule", "a", spec).await, path, message);
}

/// Proves: P-schedule
#[tokio::test]
async fn a_schedule_s_name_leaves_room_for_its_ticks() {
    let space = Space::new().await;
    let spec = || schedule("suspend", json!(true));
    space.created("RunSchedule", &"a".repeat(237), spec()).await;
    let refused = space.create("RunSchedule", &"a".repeat(238), spec()).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, 422, "{}", refused.message);
    let most = "metadata.name must have at most 237 characters";
    assert!(refused.message.contains(most), "{}", refused.message);
}

fn template(parameters: &Value) -> Value {
    json!({"parameters": parameters, "template": {"spec": {"workload": {"image": "x"}}}})
}

fn parameters(count: usize) -> Value {
    (0..count)
        .map(|n| json!({"name": format!("p{n}")}))
        .collect()
}

/// Proves: P-template
#[rstest]
#[case::no_template(json!({"parameters": []}), "spec.template", "Required value")]
#[case::no_workload(json!({"template": {"spec": {}}}), "spec.template.spec.workload", "Required value")]
#[case::name(template(&json!([{"name": "1a"}])), "spec.parameters[0].name", "should match")]
#[case::name_with_a_dot(template(&json!([{"name": "a.b"}])), "spec.parameters[0].name", "should match")]
#[case::no_name(template(&json!([{}])), "spec.parameters[0].name", "Required value")]
#[case::long_name(template(&json!([{"name": long(64)}])), "spec.parameters[0].name", "more than 63")]
#[case::a_name_twice(template(&json!([{"name": "a"}, {"name": "a"}])), "spec.parameters[1]", "Duplicate value")]
#[case::too_many(template(&parameters(65)), "spec.parameters", "at most 64 items")]
#[case::kind(
    template(&json!([{"name": "a", "type": "list"}])), "spec.parameters[0].type",
    "supported values: \"string\", \"integer\", \"number\", \"boolean\""
)]
#[case::no_value(template(&json!([{"name": "a", "enum": []}])), "spec.parameters[0].enum", "at least 1 items")]
#[tokio::test]
async fn a_template_that_can_t_be_right_is_refused(
    #[case] spec: Value,
    #[case] path: &str,
    #[case] message: &str,
) {
    let space = Space::new().await;
    assert_refused(space.create("RunTemplate", "a", spec).await, path, message);
}

/// Proves: P-tenancy
#[rstest]
#[case::negative(json!(-1), "greater than or equal to 0")]
#[case::of_33_bits(json!(4_294_967_296_i64), "less than or equal to 2147483647")]
#[tokio::test]
async fn a_limit_of_a_namespace_that_can_t_be_right_is_refused(
    #[case] limit: Value,
    #[case] message: &str,
) {
    let space = Space::new().await;
    let spec = json!({"maxActiveRunsPerNamespace": limit});
    let created = space.create("ClusterWorkspace", "a", spec).await;
    assert_refused(created, "spec.maxActiveRunsPerNamespace", message);
}

const TERM: &str = "spec.namespaceSelector.matchExpressions[0]";

/// Proves: P-tenancy
#[rstest]
#[case::operator(json!([{"key": "a", "operator": "Near"}]), "operator", "supported values")]
#[case::no_key(json!([{"operator": "Exists"}]), "key", "Required value")]
#[case::in_nothing(json!([{"key": "a", "operator": "In"}]), "values", "need values")]
#[case::in_an_empty_list(json!([{"key": "a", "operator": "NotIn", "values": []}]), "values", "need values")]
#[case::exists_with_values(json!([{"key": "a", "operator": "Exists", "values": ["b"]}]), "values", "take none")]
#[tokio::test]
async fn a_namespace_selector_that_can_t_be_meant_is_refused(
    #[case] terms: Value,
    #[case] field: &str,
    #[case] message: &str,
) {
    let space = Space::new().await;
    let spec = json!({"namespaceSelector": {"matchExpressions": terms}});
    let created = space.create("ClusterWorkspace", "a", spec).await;
    assert_refused(created, &format!("{TERM}.{field}"), message);
}

/// Proves: S-run, P-defaults
#[rstest]
#[case::everything("Run", json!({
    "workload": {"image": "x", "args": ["a"], "nested": {"deep": [1, {"a": true}]}},
    "workspaceRef": {"kind": "ClusterWorkspace", "name": "a.b-c"},
    "provider": "Größe 1", "region": "eu west/1", "suspend": true, "cancel": false,
    "activeDeadlineSeconds": 3_153_600_000_i64, "ttlSecondsAfterFinished": i32::MAX,
    "deletionPolicy": "Orphan", "readyWhen": "Accepted", "idempotencyKey": "!a/b:c~",
    "priority": -1000, "managedBy": "queue.example.com/a-b/C_1"
}))]
#[case::the_longest("Run", json!({
    "workload": {"image": long(2048)}, "workspaceRef": {"name": long(253)},
    "provider": long(128), "region": long(128), "idempotencyKey": long(255),
    "priority": 1000, "managedBy": format!("a/{}", "b".repeat(61))
}))]
#[case::rules("Workspace", json!({
    "runDefaults": {"activeDeadlineSeconds": 3_153_600_000_i64, "ttlSecondsAfterFinished": 0},
    "allowedProviders": numbered(64), "allowedRegions": [long(128)], "allowedImages": [long(2048), "ghcr.io/acme/"],
    "maxActiveRuns": i32::MAX
}))]
#[case::limits("ClusterWorkspace", json!({"maxActiveRuns": 10, "maxActiveRunsPerNamespace": i32::MAX}))]
#[case::schedule("RunSchedule", json!({
    "schedules": ["*/5 0-6,22 1,15 JAN-MAR MON-FRI", "@hourly"], "timeZone": "America/Argentina/Buenos_Aires", "suspend": true,
    "concurrencyPolicy": "Allow", "startingDeadlineSeconds": 3_153_600_000_i64, "catchUp": "Latest",
    "retryPolicy": {"limit": 5, "backoffSeconds": 86400}, "successfulRunsHistoryLimit": 1000, "failedRunsHistoryLimit": 0,
    "template": {
        "metadata": {"labels": {"a": "b"}, "annotations": {"example.com/c": "d"}},
        "spec": {"workload": {"image": "x", "nested": {"deep": [1]}}, "priority": 5, "readyWhen": "Accepted"},
    },
}))]
#[case::schedule_of_a_template("RunSchedule", json!({
    "schedules": ["@daily"], "templateRef": {"name": long(253)}, "parameters": {"lr": "0.1", "model": long(4096)},
}))]
#[case::template("RunTemplate", json!({
    "parameters": [
        {"name": "lr", "type": "number", "default": 0.1, "description": "The rate.", "enum": [0.1, 0.01]},
        {"name": "on", "type": "boolean", "default": false},
    ],
    "template": {
        "metadata": {"labels": {"lr": "$(params.lr)"}},
        "spec": {"workload": {"image": "x", "lr": "$(params.lr)"}, "activeDeadlineSeconds": "$(params.deadline)"},
    },
}))]
#[case::a_base_url("Workspace", json!({"baseURL": "https://runs.example.com/api/v1"}))]
#[case::one_of_ipv4("Workspace", json!({"baseURL": "http://127.0.0.1:8080/api/v1"}))]
#[case::one_of_ipv6("Workspace", json!({"baseURL": "http://[::1]:8080/api/v1"}))]
#[case::one_without_a_path("Workspace", json!({"baseURL": "https://runs.example.com"}))]
#[tokio::test]
async fn a_spec_is_kept_as_it_was_written(#[case] kind: &str, #[case] spec: Value) {
    let space = Space::new().await;
    let created = space.created(kind, "a", spec.clone()).await;
    for (field, written) in spec.as_object().unwrap() {
        assert_eq!(created["spec"][field], *written, "{field}");
    }
}

/// A field left empty in a manifest (`idempotencyKey:`) is null on the wire: unset, not a value.
#[tokio::test]
async fn a_null_is_an_unset_field() {
    let space = Space::new().await;
    let spec = json!({
        "workload": {"image": "x"}, "idempotencyKey": null, "suspend": null, "workspaceRef": null, "provider": null,
    });
    let created = space.created("Run", "a", spec).await;
    let without = json!({"workload": {"image": "x"}});
    let other = space.created("Run", "b", without).await;
    assert_eq!(created["spec"], other["spec"]);
}
