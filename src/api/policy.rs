//! The `ValidatingAdmissionPolicy` installed with the CRDs: the second check that protects
//! `spec.workload`.
//!
//! A CRD's rule compares only the keys that its schema names, and `workload` is open:
//! `{image, a: 1}` and `{image, b: 1}` are equal to it. A policy compares the objects as they are.

use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec, Validation,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::{names, schema};

/// Name of the policy and of its binding.
pub const NAME: &str = "workload.runs.run-operator.dev";

/// The policy: an update of a Run leaves its workload as it is.
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
pub fn binding() -> ValidatingAdmissionPolicyBinding {
    ValidatingAdmissionPolicyBinding {
        metadata: named(),
        spec: ValidatingAdmissionPolicyBindingSpec {
            policy_name: NAME.to_owned(),
            validation_actions: vec!["Deny".to_owned()],
            ..ValidatingAdmissionPolicyBindingSpec::default()
        },
    }
}

fn named() -> ObjectMeta {
    ObjectMeta {
        name: Some(NAME.to_owned()),
        ..ObjectMeta::default()
    }
}
