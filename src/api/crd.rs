//! The CRDs and the admission policy that a cluster needs for Runs, as objects and as YAML. `crds/` is
//! written from this by `make generate`; a test fails if the two differ.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, JSON, JSONSchemaProps,
    JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde::Serialize;
use serde_json::{Value, json};

use super::{ClusterWorkspace, Run, Workspace, policy};

/// The first line of every generated file.
const HEADER: &str = "# Generated from src/api by `make generate`. Do not edit.\n";

/// Error of printing the objects.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An object has no JSON form.
    #[error("failed to read the fields of {object}")]
    ReadFields {
        /// The object.
        object: &'static str,
        /// The error of the JSON library.
        #[source]
        source: serde_json::Error,
    },
    /// An object has no YAML form.
    #[error("failed to print {object} as YAML")]
    PrintYaml {
        /// The object.
        object: &'static str,
        /// The error of the YAML library.
        #[source]
        source: serde_saphyr::ser::Error,
    },
}

/// The CRD of [`Run`].
pub fn run() -> CustomResourceDefinition {
    finish(Run::crd())
}

/// The CRD of [`Workspace`].
pub fn workspace() -> CustomResourceDefinition {
    finish(Workspace::crd())
}

/// The CRD of [`ClusterWorkspace`].
pub fn cluster_workspace() -> CustomResourceDefinition {
    finish(ClusterWorkspace::crd())
}

/// The files of `crds/`, by name, in the order in which they are applied. The text is the same for
/// the same types.
pub fn files() -> Result<Vec<(&'static str, String)>, Error> {
    let policy = document("the admission policy", &policy::policy())?;
    let binding = document("the policy's binding", &policy::binding())?;
    let files = [
        ("runs.yaml", document("the CRD of Run", &run())?),
        (
            "workspaces.yaml",
            document("the CRD of Workspace", &workspace())?,
        ),
        (
            "clusterworkspaces.yaml",
            document("the CRD of ClusterWorkspace", &cluster_workspace())?,
        ),
        (
            "policy.yaml",
            format!(
                "{policy}---
{binding}"
            ),
        ),
    ];
    Ok(files
        .map(|(name, text)| (name, format!("{HEADER}{text}")))
        .into())
}

/// Everything in one text of several documents, for `kubectl apply -f -`.
pub fn yaml() -> Result<String, Error> {
    let texts: Vec<String> = files()?.into_iter().map(|(_, text)| text).collect();
    Ok(texts.join("---\n"))
}

fn document<T: Serialize>(object: &'static str, value: &T) -> Result<String, Error> {
    let mut value =
        serde_json::to_value(value).map_err(|source| Error::ReadFields { object, source })?;
    whole_numbers(&mut value);
    // Each text on one line, however long: a changed word is a changed line.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&value, options)
        .map_err(|source| Error::PrintYaml { object, source })
}

/// A bound is a float in the CRD's type: 1 would be printed as 1.0.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Number(number) if number.is_f64() => {
            // `{:.0}` of a whole float is that number, and rounds any other: only a whole one is converted.
            let whole = number.as_f64().filter(|float| float.fract() == 0.0);
            if let Some(whole) = whole.and_then(|float| format!("{float:.0}").parse::<i64>().ok()) {
                *value = whole.into();
            }
        }
        Value::Number(_) | Value::String(_) | Value::Bool(_) | Value::Null => {}
    }
}

/// Adds the parts that the derived CRD lacks.
fn finish(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    // The server's defaults: GitOps tools see no difference.
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    crd.spec.conversion = Some(CustomResourceConversion {
        strategy: "None".to_owned(),
        webhook: None,
    });
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut();
        let Some(root) = schema.and_then(|schema| schema.open_api_v3_schema.as_mut()) else {
            continue;
        };
        tidy(root);
        let status = root.properties.as_mut().and_then(|p| p.get_mut("status"));
        if let Some(status) = status {
            // An object without a status reads as healthy to GitOps tools; this one as not yet seen.
            status.default = Some(JSON(json!({"observedGeneration": -1})));
        }
    }
    crd
}

/// Removes `nullable` and titles everywhere, and line breaks from descriptions.
///
/// An `Option` is a field that may be absent. If null were a value of its own, "unset" would have two
/// forms, and a rule of immutability would distinguish them.
fn tidy(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.title = None;
    if let Some(text) = schema.description.as_mut() {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    schema
        .properties
        .iter_mut()
        .flat_map(|p| p.values_mut())
        .for_each(tidy);
    match schema.items.as_mut() {
        Some(JSONSchemaPropsOrArray::Schema(items)) => tidy(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(tidy),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = schema.additional_properties.as_mut() {
        tidy(values);
    }
}
