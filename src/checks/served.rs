//! Fields of our types that the cluster's CRDs don't have: the API server would drop or refuse them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use serde_json::Value;

use run_operator::api::crd;

/// The fields, such as `Run.spec.readyWhen`, that the API server's `OpenAPI` document of the group lacks.
pub(super) fn missing(document: &Value) -> Vec<String> {
    let mut missing = Vec::new();
    for crd in [crd::run(), crd::workspace(), crd::cluster_workspace()] {
        let kind = &crd.spec.names.kind;
        let served = schema_of(document, kind);
        let versions = crd.spec.versions.iter();
        for ours in versions.filter_map(|version| version.schema.as_ref()) {
            let ours = ours.open_api_v3_schema.as_ref();
            match (ours, served) {
                (Some(ours), Some(served)) => compare(kind, ours, served, &mut missing),
                _ => missing.push(kind.clone()),
            }
        }
    }
    missing
}

/// The schema of a kind, found by the kind that it declares and not by its key.
fn schema_of<'a>(document: &'a Value, kind: &str) -> Option<&'a Value> {
    let schemas = document["components"]["schemas"].as_object()?;
    schemas.values().find(|schema| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds
            .into_iter()
            .flatten()
            .any(|known| known["kind"] == kind)
    })
}

fn compare(path: &str, ours: &JSONSchemaProps, served: &Value, missing: &mut Vec<String>) {
    for (name, field) in ours.properties.iter().flatten() {
        let path = format!("{path}.{name}");
        match served["properties"].get(name) {
            Some(served) => compare(&path, field, served, missing),
            None => missing.push(path),
        }
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &ours.items {
        compare(&format!("{path}[]"), items, &served["items"], missing);
    }
}
