//! The parts of the CRDs' schema that attributes can't express: CEL rules, patterns, and two fields
//! written by hand.

use kube::core::{Reason, Rule};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::{RunSpec, limits};

/// Visible ASCII: safe in every header's value.
pub(super) const VISIBLE_ASCII: &str = "^[!-~]+$";
/// Anything but control characters.
pub(super) const NO_CONTROL: &str = r"^[^\x00-\x1F\x7F]+$";
/// The name of a Kubernetes object: a DNS subdomain.
pub(super) const DNS_SUBDOMAIN: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// A domain and a path, as in `example.com/queue`.
pub(super) const DOMAIN_PREFIXED: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[-A-Za-z0-9/_.~%!$&'()*+,;=:]+$";
/// The name of a template's parameter.
pub(super) const PARAMETER: &str = "^[A-Za-z][-A-Za-z0-9_]*$";
pub(super) const SECRET_KEY: &str = r"^[-._a-zA-Z0-9]+$";
/// http or https, a host, perhaps a port and a path. No user, query or fragment: a token in a URL
/// would end up in logs (rule 7).
pub(super) const BASE_URL: &str = r"^https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~!$&'()*+,;=:@%-]*)*$";

/// `field` keeps its value, and an unset one stays unset: without the `has` forms a transition rule
/// would let unset → set pass. `instead` is the remedy.
pub(super) fn immutable(field: &str, instead: &str) -> Rule {
    let rule = format!(
        "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    );
    refuse(
        field,
        rule,
        &format!("{field} is immutable, set or unset: {instead}"),
    )
}

/// The first of the three checks that protect `workload`. It can't detect an unknown key swapped for another;
/// the [admission policy](super::crd::policy) can, and the body's hash in the intent is checked last.
pub(super) fn immutable_workload() -> Rule {
    refuse(
        "workload",
        "self.workload == oldSelf.workload".to_owned(),
        WORKLOAD_MESSAGE,
    )
}

pub(super) const WORKLOAD_MESSAGE: &str =
    "workload is immutable: create a new Run, with another name, for another workload";

/// `cancel` changes from unset or false to true, and never back.
pub(super) fn one_way_cancel() -> Rule {
    refuse(
        "cancel",
        "!(has(oldSelf.cancel) && oldSelf.cancel) || (has(self.cancel) && self.cancel)".to_owned(),
        "cancel is immutable once it is true, a cancellation can't be taken back: create a new Run",
    )
}

/// `suspend` can't be set once there is a runID. A rule of the root, since it reads the status; and
/// a transition, since otherwise the write of the runID to a Run created suspended would be refused too.
pub(super) fn suspend_before_submission() -> Rule {
    refuse(
        "spec.suspend",
        "!has(oldSelf.status) || !has(oldSelf.status.runID) \
         || !(has(self.spec.suspend) && self.spec.suspend) \
         || (has(oldSelf.spec.suspend) && oldSelf.spec.suspend)"
            .to_owned(),
        "suspend is immutable once the Run is submitted, since it only delays the submission: \
         set cancel: true to end the run",
    )
}

/// `priority` stays once there is a runID: it orders submissions only.
pub(super) fn priority_before_submission() -> Rule {
    refuse(
        "spec.priority",
        "!has(oldSelf.status) || !has(oldSelf.status.runID) \
         || has(self.spec.priority) == has(oldSelf.spec.priority) \
         && (!has(self.spec.priority) || self.spec.priority == oldSelf.spec.priority)"
            .to_owned(),
        "priority is immutable once the Run is submitted, since it only orders submissions: \
         leave it as it was",
    )
}

/// `field` of the status, once written, stays. Depends on the status default: a write that drops the
/// whole status gets the default, without the field, and is refused.
pub(super) fn write_once(field: &str, instead: &str) -> Rule {
    let rule =
        format!("!has(oldSelf.{field}) || (has(self.{field}) && self.{field} == oldSelf.{field})");
    refuse(
        field,
        rule,
        &format!("{field} is immutable once it is written: {instead}"),
    )
}

fn refuse(field: &str, rule: String, message: &str) -> Rule {
    Rule::new(rule)
        .message(message)
        .field_path(format!(".{field}"))
        .reason(Reason::FieldValueForbidden)
}

/// `spec.workload`: an image, and any other fields of the service.
pub(super) fn workload(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "required": ["image"],
        "properties": {
            "image": {
                "description": "The image to run, in the service's notation. At most 2048 characters.",
                "type": "string",
                "minLength": 1,
                "maxLength": limits::MAX_IMAGE,
            },
        },
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// The providers or the regions that a Workspace allows.
pub(super) fn allowed_places(_: &mut SchemaGenerator) -> Schema {
    allowed(&json_schema!({
        "description": "A value that a Run may have.",
        "type": "string",
        "minLength": 1,
        "maxLength": limits::MAX_PLACE,
        "pattern": NO_CONTROL,
    }))
}

/// The beginnings of the images that a Workspace allows.
pub(super) fn allowed_images(_: &mut SchemaGenerator) -> Schema {
    allowed(&json_schema!({
        "description": "What an image may begin with.",
        "type": "string",
        "minLength": 1,
        "maxLength": limits::MAX_IMAGE,
    }))
}

/// An empty list would allow nothing, and is no list by mistake.
fn allowed(items: &Schema) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": limits::MAX_ALLOWED,
        "x-kubernetes-list-type": "set",
        "items": items,
    })
}

/// metav1.LabelSelector with our own texts and sizes, and with meaningless values refused.
pub(super) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "description": "Labels that a namespace must have, with these values. At most 32.",
                "type": "object",
                "maxProperties": limits::MAX_SELECTOR_TERMS,
                "additionalProperties": {
                    "description": "The label's value.",
                    "type": "string",
                    "maxLength": limits::MAX_LABEL_VALUE,
                },
            },
            "matchExpressions": {
                "description": "Requirements that the labels of a namespace must meet, all of them. At most 32.",
                "type": "array",
                "maxItems": limits::MAX_SELECTOR_TERMS,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "description": "One requirement.",
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {
                            "description": "The label's key.",
                            "type": "string",
                            "minLength": 1,
                            "maxLength": limits::MAX_LABEL_KEY,
                        },
                        "operator": {
                            "description": "In and NotIn compare with values; Exists and DoesNotExist take none.",
                            "type": "string",
                            "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                        },
                        "values": {
                            "description": "Values that In and NotIn compare with. At most 32.",
                            "type": "array",
                            "maxItems": limits::MAX_SELECTOR_TERMS,
                            "x-kubernetes-list-type": "atomic",
                            "items": {
                                "description": "A label's value.",
                                "type": "string",
                                "maxLength": limits::MAX_LABEL_VALUE,
                            },
                        },
                    },
                    "x-kubernetes-validations": [refuse(
                        "values",
                        "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)"
                            .to_owned(),
                        "values don't fit the operator: In and NotIn need values, Exists and DoesNotExist take none",
                    )],
                },
            },
        },
    })
}

/// The conditions of either kind: metav1.Condition with our own texts and sizes.
pub(super) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": limits::MAX_CONDITIONS,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "description": "A condition that is true, false or unknown.",
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {
                    "description": "Type of the condition, a CamelCase word.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": limits::MAX_REASON,
                },
                "status": {
                    "description": "True, False or Unknown.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "observedGeneration": {
                    "description": "The generation of the spec that the condition is based on. Older than \
                                    metadata.generation: the present spec is not yet reconciled.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "lastTransitionTime": {
                    "description": "Time of the last change of the status.",
                    "type": "string",
                    "format": "date-time",
                },
                "reason": {
                    "description": "Reason, a CamelCase word of a fixed list that alerts can rely on.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": limits::MAX_REASON,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "description": "Explanation for a person, with the remedy if a person has to act.",
                    "type": "string",
                    "maxLength": limits::MAX_MESSAGE,
                },
            },
        },
    })
}

/// The expressions of a RunSchedule. Whether they are right, its status shows: no CEL rule can tell.
pub(super) fn schedules(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": limits::MAX_SCHEDULES,
        "x-kubernetes-list-type": "set",
        "items": {
            "description": "Five fields of cron, as in `17 2 * * *`, or a name such as `@hourly`.",
            "type": "string",
            "minLength": 1,
            "maxLength": limits::MAX_SCHEDULE,
        },
    })
}

pub(super) fn short_enough_for_ticks() -> Rule {
    let most = limits::MAX_SCHEDULE_NAME;
    let message = format!(
        "metadata.name must have at most {most} characters, since the minute of a tick follows in the names of its Runs"
    );
    Rule::new(format!("size(self.metadata.name) <= {most}")).message(&*message)
}

pub(super) fn one_template() -> Rule {
    refuse(
        "template",
        "has(self.template) != has(self.templateRef)".to_owned(),
        "exactly one of template and templateRef is needed",
    )
}

pub(super) fn parameters_of_a_template() -> Rule {
    refuse(
        "parameters",
        "!has(self.parameters) || has(self.templateRef)".to_owned(),
        "parameters are those of a RunTemplate: they need templateRef",
    )
}

/// What a RunSchedule's Runs are made from: a Run's spec without what is each Run's own.
pub(super) fn run_template(generator: &mut SchemaGenerator) -> Schema {
    let mut spec = RunSpec::json_schema(generator);
    let own = refuse(
        "suspend",
        "!has(self.suspend) && !has(self.cancel) && !has(self.idempotencyKey) && !has(self.managedBy)"
            .to_owned(),
        "suspend, cancel, idempotencyKey and managedBy are not the schedule's to give: leave them out; \
         spec.suspend of the RunSchedule holds all",
    );
    spec.insert("x-kubernetes-validations".to_owned(), json!([own]));
    spec.insert("description".to_owned(), json!("The spec of each Run."));
    // A template may change, and what it lacks is the Run's default.
    if let Some(Value::Object(fields)) = spec.get_mut("properties") {
        for field in fields.values_mut().filter_map(Value::as_object_mut) {
            field.remove("default");
        }
    }
    template(&spec)
}

/// A template whose spec may have a parameter in place of any value.
pub(super) fn open_template(_: &mut SchemaGenerator) -> Schema {
    template(&json_schema!({
        "description": "The spec of each Run, with `$(params.NAME)` in place of values. Checked when a Run is made.",
        "type": "object",
        "required": ["workload"],
        "properties": {
            "workload": {
                "description": "The workload, as of a Run.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
            },
        },
        "x-kubernetes-preserve-unknown-fields": true,
    }))
}

fn template(spec: &Schema) -> Schema {
    let texts = |description, most| {
        json!({
            "description": description,
            "type": "object",
            "maxProperties": limits::MAX_PARAMETERS,
            "additionalProperties": {
                "description": "A value.",
                "type": "string",
                "maxLength": most,
            },
        })
    };
    json_schema!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "metadata": {
                "description": "Metadata of each Run.",
                "type": "object",
                "properties": {
                    "labels": texts("Labels of each Run, at most 64.", limits::MAX_VALUE),
                    "annotations": texts("Annotations of each Run, at most 64.", limits::MAX_VALUE),
                },
            },
            "spec": spec,
        },
    })
}

/// Values of parameters, by name.
pub(super) fn parameter_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": limits::MAX_PARAMETERS,
        "additionalProperties": {
            "description": "The value, as text.",
            "type": "string",
            "maxLength": limits::MAX_VALUE,
        },
    })
}

/// A Run's `status.results`.
pub(super) fn results(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": limits::MAX_RESULTS,
        "additionalProperties": {
            "description": "The result, as text.",
            "type": "string",
            "maxLength": limits::MAX_RESULT,
        },
    })
}

pub(super) fn parameter_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

pub(super) fn parameter_enum(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": limits::MAX_PARAMETERS,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "description": "A value.",
            "x-kubernetes-preserve-unknown-fields": true,
        },
    })
}
