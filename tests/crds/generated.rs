//! What is generated from the types: every field is explained, and the server changes nothing in it. That `crds/` is what
//! they say is seen by `make drift`.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::api::Api;
use run_operator::api::crd;

use crate::namespace::Space;

/// Calls `look` for every schema of every kind, with its path.
fn walk_all(mut look: impl FnMut(&str, &JSONSchemaProps)) {
    for crd in crd::all() {
        walk(&crd.spec.names.kind, root(&crd), &mut look);
    }
}

fn walk(path: &str, schema: &JSONSchemaProps, look: &mut dyn FnMut(&str, &JSONSchemaProps)) {
    look(path, schema);
    for (name, field) in schema.properties.iter().flatten() {
        walk(&format!("{path}.{name}"), field, look);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        walk(&format!("{path}[]"), items, look);
    }
}

fn root(crd: &CustomResourceDefinition) -> &JSONSchemaProps {
    let [version] = crd.spec.versions.as_slice() else {
        panic!("one version, not {}", crd.spec.versions.len());
    };
    let schema = version.schema.as_ref().unwrap();
    schema.open_api_v3_schema.as_ref().unwrap()
}

/// Words that belong to those who work on the operator, not to those who use it.
const NOTES: &[&str] = &[
    "[`", "`]", "::", "rule ", "Spec`", "schema", "TODO", "kube", "serde", "  ",
];

/// Proves: P-defaults
#[test]
fn every_field_is_explained_for_its_users() {
    walk_all(|path, schema| {
        let text = schema.description.as_deref().unwrap_or_default();
        assert!(text.ends_with('.'), "{path} has no sentence: {text:?}");
        for note in NOTES {
            let for_users = !text.contains(note);
            assert!(for_users, "{path} has {note:?}, for developers: {text:?}");
        }
        for value in schema.enum_.iter().flatten() {
            let value = value.0.as_str().unwrap();
            assert!(text.contains(value), "{path}: {value} is not in {text:?}");
        }
    });
}

/// Proves: P-defaults
#[test]
fn every_kind_has_a_short_name_and_is_in_the_category() {
    let short = ["rn", "rws", "rcws", "rsch", "rtmpl"];
    for (crd, short_name) in crd::all().into_iter().zip(short) {
        let names = crd.spec.names;
        assert_eq!(names.short_names, Some(vec![short_name.to_owned()]));
        assert_eq!(names.categories, Some(vec!["run-operator".to_owned()]));
    }
}

/// A server shows those of a Workspace in `kubectl.rs`.
/// Proves: P-defaults
#[test]
fn workspaces_of_both_kinds_have_the_same_columns() {
    let columns = |crd: CustomResourceDefinition| {
        let mut versions = crd.spec.versions.into_iter();
        versions.next().unwrap().additional_printer_columns.unwrap()
    };
    assert_eq!(columns(crd::workspace()), columns(crd::cluster_workspace()));
}

/// Proves: P-defaults
#[test]
fn nothing_else_has_a_default() {
    let mut defaults = Vec::new();
    walk_all(|path, schema| {
        if schema.default.is_some() {
            defaults.push(path.to_owned());
        }
    });
    let expected = [
        "Run.spec.deletionPolicy",
        "Run.spec.priority",
        "Run.spec.provider",
        "Run.spec.readyWhen",
        "Run.spec.region",
        "Run.status",
        "Workspace.status",
        "ClusterWorkspace.status",
        "RunSchedule.spec.catchUp",
        "RunSchedule.spec.concurrencyPolicy",
        "RunSchedule.spec.failedRunsHistoryLimit",
        "RunSchedule.spec.retryPolicy.backoffSeconds",
        "RunSchedule.spec.successfulRunsHistoryLimit",
        "RunSchedule.status",
        "RunTemplate.spec.parameters[].type",
    ];
    assert_eq!(defaults, expected);
}

#[test]
fn every_value_is_bounded_and_null_is_none() {
    walk_all(|path, schema| {
        let text = schema.type_.as_deref() == Some("string");
        let bounded =
            schema.max_length.is_some() || schema.enum_.is_some() || schema.format.is_some();
        assert!(!text || bounded, "{path} has no bound");
        // Kubernetes before 1.36 doesn't check `format: int32`.
        let number = schema.format.as_deref() == Some("int32");
        let highest = schema.maximum.is_some_and(|max| max <= f64::from(i32::MAX));
        let lowest = schema.minimum.is_some_and(|min| min >= f64::from(i32::MIN));
        assert!(!number || highest && lowest, "{path} has not both bounds");
        assert_eq!(schema.nullable, None, "{path}");
        assert!(
            schema.one_of.is_none() && schema.any_of.is_none(),
            "{path} is not a plain schema"
        );
    });
}

/// Proves: P-immutable
#[test]
fn every_rule_has_a_path_a_reason_and_a_remedy() {
    walk_all(|path, schema| {
        // Nothing of a RunSchedule is immutable; `values.rs` has what it refuses.
        if path.starts_with("RunSchedule") {
            return;
        }
        for rule in schema.x_kubernetes_validations.iter().flatten() {
            let message = rule.message.as_deref().unwrap_or_default();
            let (fact, instead) = message.split_once(": ").unwrap_or_default();
            let expected = if rule.rule.contains("oldSelf") {
                "is immutable"
            } else {
                "don't fit the operator"
            };
            let says = fact.contains(expected) && !instead.is_empty();
            assert!(says, "{message:?}");
            let path = rule.field_path.as_deref().unwrap();
            let field = path.rsplit('.').next().unwrap();
            assert!(fact.starts_with(field), "{message:?} is said of {path}");
            assert_eq!(rule.reason.as_deref(), Some("FieldValueForbidden"));
        }
    });
}

/// GitOps tools compare what they apply with what is there.
/// Proves: I-crds
#[tokio::test]
async fn the_server_adds_nothing_to_a_crd_or_the_policy() {
    let space = Space::new().await;
    let client = space.control_plane.client().await.unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in crd::all() {
        let live = crds.get(crd.metadata.name.as_deref().unwrap()).await;
        assert_eq!(live.unwrap().spec, crd.spec);
    }
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let live = policies.get(crd::POLICY).await.unwrap();
    assert_eq!(live.spec, crd::policy().spec);
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client);
    let live = bindings.get(crd::POLICY).await.unwrap();
    assert_eq!(live.spec, crd::policy_binding().spec);
}
