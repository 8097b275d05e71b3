//! `values.schema.json`: what Helm refuses before it renders anything.

use serde_json::{Value, json};

use super::keys::Key;
use crate::common::Outcome;

/// The schema as text. A key that isn't the chart's is refused, at every level but in `global`.
pub(super) fn of(keys: &[Key]) -> Outcome<String> {
    let mut root = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart run-operator",
        "type": "object",
        "additionalProperties": false,
        "properties": {},
    });
    for key in keys {
        let Some((name, outer)) = key.path.split_last() else {
            continue;
        };
        let properties = outer
            .iter()
            .try_fold(&mut root, |at, name| at["properties"].get_mut(name))
            .and_then(|at| at["properties"].as_object_mut())
            .ok_or_else(|| format!("values.yaml: {} is in no object", key.dotted()))?;
        properties.insert(name.clone(), schema_of(key));
    }
    Ok(format!("{root:#}\n"))
}

fn schema_of(key: &Key) -> Value {
    let mut schema = json!({"type": type_of(&key.default)});
    if !key.description.is_empty() {
        schema["description"] = key.description.as_str().into();
    }
    if key.inner {
        // A parent chart's `global` holds what is other charts'.
        schema["additionalProperties"] = (key.path == ["global"]).into();
        schema["properties"] = json!({});
    } else {
        schema["default"] = key.default.clone();
    }
    let rules = key.rules.as_ref().and_then(Value::as_object);
    for (rule, value) in rules.into_iter().flatten() {
        schema[rule] = value.clone();
    }
    schema
}

/// The JSON schema's name of a value's type.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
