//! The form of recorded objects: which fields there are, of which type, and the words whose meaning another version
//! must know.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The annotation whose text is JSON.
const INTENT: &str = "run-operator.dev/intent";

/// For each field, by its path, the types and words that the objects have there.
pub type Form = BTreeMap<String, BTreeSet<String>>;

/// The forms of all objects of a record (`KIND/NAME` to object): by kind, what all of its objects have together, and by
/// object, what each decides the next step by.
pub fn forms(record: &Value) -> BTreeMap<String, Form> {
    let mut forms = BTreeMap::<String, Form>::new();
    for (name, object) in record.as_object().into_iter().flatten() {
        let kind = name.split('/').next().unwrap_or_default();
        for part in ["metadata", "status"] {
            add(
                forms.entry(kind.to_owned()).or_default(),
                part,
                &object[part],
            );
        }
        add_standing(forms.entry(name.clone()).or_default(), object);
    }
    forms
}

/// Adds the fields of a value.
fn add(form: &mut Form, path: &str, value: &Value) {
    let mut insert = |what: &str| {
        let types = form.entry(path.to_owned()).or_default();
        types.insert(what.to_owned());
    };
    match value {
        Value::Null => insert("null"),
        Value::Bool(_) => insert("boolean"),
        Value::Number(number) => insert(if number.is_f64() { "number" } else { "integer" }),
        Value::String(text) if path.ends_with(INTENT) => match serde_json::from_str(text) {
            Ok(intent) => add(form, path, &intent),
            Err(_) => insert("no JSON"),
        },
        Value::String(text) if is_time(text) => insert("time"),
        Value::String(_) => insert("string"),
        Value::Array(items) => items
            .iter()
            .for_each(|item| add(form, &format!("{path}[]"), item)),
        Value::Object(fields) => {
            for (name, field) in fields {
                add(form, &format!("{path}.{name}"), field);
            }
        }
    }
}

/// Adds what the next step depends on: phase, conditions, refusal, finalizers, and the end in the intent.
fn add_standing(form: &mut Form, object: &Value) {
    let status = &object["status"];
    let mut insert = |path: &str, value: &Value| {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        form.entry(path.to_owned()).or_default().insert(text);
    };
    for path in ["/status/phase", "/status/refusal", "/metadata/finalizers"] {
        insert(path, object.pointer(path).unwrap_or(&Value::Null));
    }
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let kind = condition["type"].as_str().unwrap_or_default();
        insert(&format!("{kind}.status"), &condition["status"]);
        insert(&format!("{kind}.reason"), &condition["reason"]);
    }
    if let Some(intent) = object["metadata"]["annotations"][INTENT].as_str() {
        let intent: Value = serde_json::from_str(intent).unwrap_or_default();
        insert("intent.serializer", &intent["serializer"]);
        insert("intent.epoch", &intent["epoch"]);
        insert("intent.end.phase", &intent["end"]["phase"]);
        insert("intent.end.reason", &intent["end"]["reason"]);
    }
}

/// Whether a text is a time, such as `2026-11-24T21:15:47Z`, with a fraction or without.
fn is_time(text: &str) -> bool {
    let shape: String = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    let whole = shape.split('.').next().unwrap_or_default();
    whole.trim_end_matches('Z') == "0000-00-00T00:00:00" && shape.ends_with('Z')
}
