//! The `RunTemplate` resource, from which Runs are made: data that no controller reconciles. Who creates a Run expands
//! it (`decide::template`).

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Workload, limits, schema};

/// A Run's spec with parameters.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "run-operator.dev",
    version = "v1alpha1",
    kind = "RunTemplate",
    plural = "runtemplates",
    namespaced,
    derive = "PartialEq",
    shortname = "rtmpl",
    category = "run-operator",
    doc = "What Runs are made from, with parameters, by a person or by a RunSchedule. A change affects no Run \
           that exists.",
    printcolumn = r#"{"name": "Age", "type": "date",
        "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since the object was created."}"#
)]
#[serde(rename_all = "camelCase")]
pub struct RunTemplateSpec {
    /// What can be set for each Run, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = limits::MAX_PARAMETERS),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub parameters: Vec<Parameter>,
    /// The Runs' labels, annotations and spec. `$(params.NAME)` in a string is replaced: as a whole string
    /// by a value of the parameter's type, else by its text; `$$(` is a `$(`.
    #[schemars(schema_with = "schema::open_template")]
    pub template: TemplateBody,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Parameter {
    /// Its name: a letter, then letters, digits, `-` and `_`, at most 63 characters.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::PARAMETER))]
    pub name: String,
    /// The type of its values: `string`, the default, `integer`, `number` or `boolean`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ParameterType", extend("default" = ParameterType::default()))]
    pub kind: Option<ParameterType>,
    /// What it means, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_MESSAGE))]
    pub description: Option<String>,
    /// Its value where none is given, of its type. Unset: one must be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::parameter_value")]
    pub default: Option<Value>,
    /// The values that it may have, at most 64.
    #[serde(rename = "enum", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::parameter_enum")]
    pub allowed: Option<Vec<Value>>,
}

/// The type of a parameter's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// Any text.
    #[default]
    String,
    /// A whole number of 64 bits.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
}

/// What a Run is made from.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct TemplateBody {
    #[serde(default, skip_serializing_if = "TemplateMeta::is_empty")]
    pub metadata: TemplateMeta,
    /// A Run's `spec`, as text: it may be as deep as the API server takes.
    pub spec: Workload,
}

/// Metadata of the Runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct TemplateMeta {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl TemplateMeta {
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}

impl Parameter {
    pub fn kind(&self) -> ParameterType {
        self.kind.unwrap_or_default()
    }
}
