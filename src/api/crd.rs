//! The CRDs and the admission policy that a cluster needs for Runs, as objects and as YAML. `crds/` is
//! written from this by `make generate`; a test fails if the two differ.

use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec, Validation,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
    JSONSchemaPropsOrBool,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::CustomResourceExt;
use serde::Serialize;
use serde_json::Value;

use crate::util::{Failed, failed};

use super::{ClusterWorkspace, Run, RunSchedule, RunTemplate, Workspace, names, schema};

const HEADER: &str = "# Generated from src/api by `make generate`. Do not edit.\n";

pub fn run() -> CustomResourceDefinition {
    finish(Run::crd())
}

pub fn workspace() -> CustomResourceDefinition {
    finish(Workspace::crd())
}

pub fn cluster_workspace() -> CustomResourceDefinition {
    let mut crd = finish(ClusterWorkspace::crd());
    for (version, of_workspace) in crd
        .spec
        .versions
        .iter_mut()
        .zip(Workspace::crd().spec.versions)
    {
        version.additional_printer_columns = of_workspace.additional_printer_columns;
    }
    crd
}

pub fn run_schedule() -> CustomResourceDefinition {
    finish(RunSchedule::crd())
}

pub fn run_template() -> CustomResourceDefinition {
    finish(RunTemplate::crd())
}

/// Those of all kinds, in the order in which they are applied.
pub fn all() -> [CustomResourceDefinition; 5] {
    [
        run(),
        workspace(),
        cluster_workspace(),
        run_schedule(),
        run_template(),
    ]
}

/// The files of `crds/`, by name, in the order in which they are applied.
pub fn files() -> Result<Vec<(String, String)>, Failed> {
    let (policy, binding) = (document(&policy())?, document(&policy_binding())?);
    let with_header = |text| format!("{HEADER}{text}");
    let file = |crd: CustomResourceDefinition| {
        let name = format!("{}.yaml", crd.spec.names.plural);
        Ok((name, with_header(document(&crd)?)))
    };
    let policies = with_header(format!("{policy}---\n{binding}"));
    let files = all().into_iter().map(file);
    files
        .chain([Ok(("policy.yaml".to_owned(), policies))])
        .collect()
}

/// Everything in one text of several documents, for `kubectl apply -f -`.
pub fn yaml() -> Result<String, Failed> {
    let texts: Vec<String> = files()?.into_iter().map(|(_, text)| text).collect();
    Ok(texts.join("---\n"))
}

fn document<T: Serialize>(object: &T) -> Result<String, Failed> {
    let fields = serde_json::to_value(object);
    let mut value = fields.map_err(failed("read the fields of a CRD or of its policy"))?;
    whole_numbers(&mut value);
    // Each text on one line, however long: a changed word is a changed line.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(&value, options);
    text.map_err(failed("print a CRD or its policy as YAML"))
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

/// Name of the admission policy and of its binding.
pub const POLICY: &str = "workload.runs.run-operator.dev";

/// The admission policy: an update of a Run leaves its workload as it is. The second check that protects
/// `spec.workload`.
///
/// A CRD's rule compares only the keys that its schema names, and `workload` is open:
/// `{image, a: 1}` and `{image, b: 1}` are equal to it. A policy compares the objects as they are.
pub fn policy() -> ValidatingAdmissionPolicy {
    let updates_of_runs = NamedRuleWithOperations {
        api_groups: Some(vec![names::GROUP.to_owned()]),
        api_versions: Some(vec!["*".to_owned()]),
        operations: Some(vec!["UPDATE".to_owned()]),
        resources: Some(vec!["runs".to_owned()]),
        scope: Some("Namespaced".to_owned()),
        ..NamedRuleWithOperations::default()
    };
    ValidatingAdmissionPolicy {
        metadata: named(),
        spec: Some(ValidatingAdmissionPolicySpec {
            failure_policy: Some("Fail".to_owned()),
            match_constraints: Some(MatchResources {
                match_policy: Some("Equivalent".to_owned()),
                resource_rules: Some(vec![updates_of_runs]),
                // The server's defaults: GitOps tools see no difference.
                namespace_selector: Some(LabelSelector::default()),
                object_selector: Some(LabelSelector::default()),
                exclude_resource_rules: None,
            }),
            validations: Some(vec![Validation {
                expression: "object.spec.workload == oldObject.spec.workload".to_owned(),
                message: Some(format!("spec.workload: {}", schema::WORKLOAD_MESSAGE)),
                // The status code of the CRD's own rules: clients see one kind of refusal.
                reason: Some("Invalid".to_owned()),
                ..Validation::default()
            }]),
            ..ValidatingAdmissionPolicySpec::default()
        }),
        status: None,
    }
}

/// The binding that puts the policy in force in every namespace.
pub fn policy_binding() -> ValidatingAdmissionPolicyBinding {
    ValidatingAdmissionPolicyBinding {
        metadata: named(),
        spec: ValidatingAdmissionPolicyBindingSpec {
            policy_name: POLICY.to_owned(),
            validation_actions: vec!["Deny".to_owned()],
            ..ValidatingAdmissionPolicyBindingSpec::default()
        },
    }
}

fn named() -> ObjectMeta {
    ObjectMeta {
        name: Some(POLICY.to_owned()),
        ..ObjectMeta::default()
    }
}
