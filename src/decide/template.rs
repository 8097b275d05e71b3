//! What a RunTemplate yields with given values. Whoever creates a Run expands the template: the controller of Runs never
//! reads one.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use crate::api::limits::MAX_OBJECT;
use crate::api::template::{Parameter, ParameterType, RunTemplateSpec, TemplateBody, TemplateMeta};

use super::truncate::escaped;

const OPEN: &str = "$(params.";
/// Bytes of a name in a message.
const SHOWN: usize = 64;

/// Why a template can't be expanded. The text names the parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("the template has no parameter {0:?}; it has {1}.")]
    Unknown(String, String),
    #[error("the parameter {0:?} has no default: give it a value.")]
    Missing(String),
    // The value is the user's, and in no status.
    #[error("the parameter {0:?} is {1}, and its value is none.")]
    Type(String, &'static str),
    #[error("the value of the parameter {0:?} is none of those that it may have: {1}.")]
    NotAllowed(String, String),
    #[error("the template names $(params.{0}), and has no such parameter.")]
    Undeclared(String),
    #[error("the template's spec can't be read: it is nested too deeply.")]
    TooDeep,
    #[error(
        "the template yields more than the {} bytes of the largest Run: shorten its values, or name them less often.",
        MAX_OBJECT
    )]
    TooLarge,
}

/// The template with the parameters' values in place: `given`, as text, or else their defaults.
pub fn expand(
    template: &RunTemplateSpec,
    given: &BTreeMap<String, String>,
) -> Result<TemplateBody, TemplateError> {
    let values = values(&template.parameters, given)?;
    let TemplateBody { metadata, spec } = &template.template;
    let spec: Map<String, Value> =
        serde_json::from_str(spec.as_str()).map_err(|_| TemplateError::TooDeep)?;
    let spec = spec
        .into_iter()
        .map(|(key, value)| Ok((key, replaced(value, &values)?)));
    let spec: Map<_, _> = spec.collect::<Result<_, _>>()?;
    let texts = |texts: &BTreeMap<String, String>| {
        let each = texts.iter();
        let each = each.map(|(key, text)| Ok((key.clone(), text_of(&whole(text, &values)?))));
        each.collect::<Result<_, _>>()
    };
    Ok(TemplateBody {
        metadata: TemplateMeta {
            labels: texts(&metadata.labels)?,
            annotations: texts(&metadata.annotations)?,
        },
        spec: spec.into(),
    })
}

struct Values<'a> {
    by_name: BTreeMap<&'a str, Value>,
    /// Bytes that may still be put in place: a text that is named often enough would fill the memory.
    left: Cell<usize>,
}

fn values<'a>(
    parameters: &'a [Parameter],
    given: &BTreeMap<String, String>,
) -> Result<Values<'a>, TemplateError> {
    let known = |name: &str| parameters.iter().any(|parameter| parameter.name == name);
    if let Some(name) = given.keys().find(|name| !known(name)) {
        let names: Vec<_> = parameters.iter().map(|p| p.name.as_str()).collect();
        let names = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        return Err(TemplateError::Unknown(name.clone(), names));
    }
    let of = |parameter: &'a Parameter| {
        let name = parameter.name.as_str();
        let value = match (given.get(name), &parameter.default) {
            (Some(text), _) => typed(parameter, text)?,
            (None, Some(default)) => checked(parameter, default)?,
            (None, None) => return Err(TemplateError::Missing(name.to_owned())),
        };
        allowed(parameter, &value)?;
        Ok((name, value))
    };
    Ok(Values {
        by_name: parameters.iter().map(of).collect::<Result<_, _>>()?,
        left: Cell::new(MAX_OBJECT),
    })
}

fn typed(parameter: &Parameter, text: &str) -> Result<Value, TemplateError> {
    let value = match parameter.kind() {
        ParameterType::String => Some(text.into()),
        ParameterType::Integer => text.parse::<i64>().ok().map(Value::from),
        ParameterType::Number => text.parse::<Number>().ok().map(Value::Number),
        ParameterType::Boolean => text.parse::<bool>().ok().map(Value::Bool),
    };
    value.ok_or_else(|| wrong_type(parameter))
}

fn checked(parameter: &Parameter, default: &Value) -> Result<Value, TemplateError> {
    let fits = match parameter.kind() {
        ParameterType::String => default.is_string(),
        ParameterType::Integer => default.is_i64(),
        ParameterType::Number => default.is_number(),
        ParameterType::Boolean => default.is_boolean(),
    };
    if fits {
        Ok(default.clone())
    } else {
        Err(wrong_type(parameter))
    }
}

fn wrong_type(parameter: &Parameter) -> TemplateError {
    let expected = match parameter.kind() {
        ParameterType::String => "a string",
        ParameterType::Integer => "an integer",
        ParameterType::Number => "a number",
        ParameterType::Boolean => "a boolean, true or false",
    };
    TemplateError::Type(parameter.name.clone(), expected)
}

fn allowed(parameter: &Parameter, value: &Value) -> Result<(), TemplateError> {
    // The API server stores 1.0 as 1.
    let number = parameter.kind() == ParameterType::Number;
    let is_value = |one: &Value| one == value || number && one.as_f64() == value.as_f64();
    match &parameter.allowed {
        Some(allowed) if !allowed.iter().any(is_value) => {
            let all: Vec<_> = allowed.iter().map(text_of).collect();
            let all = escaped(&all.join(", "), 4 * SHOWN).into_owned();
            Err(TemplateError::NotAllowed(parameter.name.clone(), all))
        }
        _ => Ok(()),
    }
}

fn replaced(value: Value, values: &Values<'_>) -> Result<Value, TemplateError> {
    match value {
        Value::String(text) => whole(&text, values),
        Value::Array(items) => items
            .into_iter()
            .map(|item| replaced(item, values))
            .collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| Ok((key, replaced(value, values)?)))
            .collect::<Result<Map<_, _>, _>>()
            .map(Value::Object),
        other => Ok(other),
    }
}

/// A string of the template: the value itself, of its type, where nothing else is in it.
fn whole(text: &str, values: &Values<'_>) -> Result<Value, TemplateError> {
    let inner = text
        .strip_prefix(OPEN)
        .and_then(|rest| rest.strip_suffix(')'));
    match inner {
        Some(name) if !name.contains(')') => value_of(name, values).cloned(),
        _ => within(text, values).map(Value::String),
    }
}

fn within(text: &str, values: &Values<'_>) -> Result<String, TemplateError> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("$(") {
        let (before, from) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            // `$$(` is a `$(` that is kept.
            out.push_str(before);
            out.push_str("$(");
            rest = from.get(2..).unwrap_or_default();
            continue;
        }
        out.push_str(before);
        let named = from
            .strip_prefix(OPEN)
            .and_then(|from| from.split_once(')'));
        if let Some((name, after)) = named {
            out.push_str(&text_of(value_of(name, values)?));
            rest = after;
        } else {
            out.push_str("$(");
            rest = from.get(2..).unwrap_or_default();
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn value_of<'a>(name: &str, values: &'a Values<'_>) -> Result<&'a Value, TemplateError> {
    let undeclared = || TemplateError::Undeclared(escaped(name, SHOWN).into_owned());
    let value = values.by_name.get(name).ok_or_else(undeclared)?;
    // The other types are short.
    let size = value.as_str().map_or(0, str::len);
    let left = values.left.get().checked_sub(size);
    values.left.set(left.ok_or(TemplateError::TooLarge)?);
    Ok(value)
}

/// A value within a text.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn template(parameters: &Value, spec: &Value) -> RunTemplateSpec {
        let body = json!({"parameters": parameters, "template": {"spec": spec}});
        serde_json::from_value(body).unwrap()
    }

    fn given(values: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        values.iter().map(owned).collect()
    }

    fn training() -> RunTemplateSpec {
        let parameters = json!([
            {"name": "lr", "type": "number", "default": 0.1},
            {"name": "epochs", "type": "integer", "enum": [1, 10], "default": 10},
            {"name": "model"},
            {"name": "resume", "type": "boolean", "default": false},
        ]);
        let spec = json!({"workload": {
            "image": "ghcr.io/acme/$(params.model):1", "args": ["--lr=$(params.lr)", "$(params.epochs)"],
            "env": {"RESUME": "$(params.resume)", "HOME": "$(HOME)", "literal": "$$(params.lr) $"},
        }});
        template(&parameters, &spec)
    }

    fn spec_of(body: &TemplateBody) -> Value {
        serde_json::from_str(body.spec.as_str()).unwrap()
    }

    /// Proves: P-template
    #[test]
    fn a_whole_string_becomes_a_value_and_a_part_its_text() {
        let body = expand(&training(), &given(&[("model", "tiny"), ("lr", "1e-3")])).unwrap();
        let expected = json!({"workload": {
            "image": "ghcr.io/acme/tiny:1", "args": ["--lr=0.001", 10],
            "env": {"RESUME": false, "HOME": "$(HOME)", "literal": "$(params.lr) $"},
        }});
        assert_eq!(spec_of(&body), expected);
    }

    /// Proves: P-template
    #[rstest]
    #[case::missing(&[], r#"the parameter "model" has no default: give it a value."#)]
    #[case::unknown(&[("model", "a"), ("rate", "1")],
        r#"the template has no parameter "rate"; it has lr, epochs, model, resume."#)]
    #[case::another_type(&[("model", "a"), ("epochs", "ten")],
        r#"the parameter "epochs" is an integer, and its value is none."#)]
    #[case::not_allowed(&[("model", "a"), ("epochs", "5")],
        r#"the value of the parameter "epochs" is none of those that it may have: 1, 10."#)]
    #[case::no_boolean(&[("model", "a"), ("resume", "yes")],
        r#"the parameter "resume" is a boolean, true or false, and its value is none."#)]
    fn a_value_that_does_not_fit_is_refused_by_name(
        #[case] values: &[(&str, &str)],
        #[case] message: &str,
    ) {
        let error = expand(&training(), &given(values)).unwrap_err();
        assert_eq!(error.to_string(), message);
    }

    /// Proves: P-template
    #[rstest]
    fn a_number_is_allowed_however_it_is_written(#[values("1", "1.0", "1e0", "0.1")] text: &str) {
        let parameters = json!([{"name": "lr", "type": "number", "enum": [1, 0.1]}]);
        let template = template(&parameters, &json!({"workload": {"image": "i"}}));
        assert!(expand(&template, &given(&[("lr", text)])).is_ok());
        assert!(expand(&template, &given(&[("lr", "1.1")])).is_err());
    }

    /// Proves: P-template
    #[test]
    fn what_the_template_itself_has_wrong_is_named() {
        let spec = json!({"workload": {"image": "$(params.image)"}});
        let undeclared = expand(&template(&json!([]), &spec), &given(&[])).unwrap_err();
        assert_eq!(undeclared, TemplateError::Undeclared("image".to_owned()));
        let parameters = json!([{"name": "n", "type": "integer", "default": "1"}]);
        let default = expand(&template(&parameters, &spec), &given(&[])).unwrap_err();
        assert_eq!(
            default.to_string(),
            r#"the parameter "n" is an integer, and its value is none."#
        );
    }

    /// Else one template could end the operator.
    /// Proves: P-template
    #[test]
    fn what_a_template_yields_is_bounded() {
        let parameters = json!([{"name": "text", "default": "a".repeat(100_000)}]);
        let named = |times| {
            let args = vec!["$(params.text)"; times];
            let spec = json!({"workload": {"image": "i", "args": args}});
            expand(&template(&parameters, &spec), &given(&[])).map(drop)
        };
        assert_eq!(named(15), Ok(()));
        assert_eq!(named(16), Err(TemplateError::TooLarge));
    }

    #[test]
    fn labels_and_annotations_have_texts() {
        let body = json!({
            "parameters": [{"name": "n", "type": "integer"}],
            "template": {
                "metadata": {"labels": {"n": "$(params.n)"}, "annotations": {"a": "is $(params.n)"}},
                "spec": {"workload": {"image": "i"}},
            },
        });
        let template: RunTemplateSpec = serde_json::from_value(body).unwrap();
        let metadata = expand(&template, &given(&[("n", "7")])).unwrap().metadata;
        assert_eq!(metadata.labels["n"], "7");
        assert_eq!(metadata.annotations["a"], "is 7");
    }
}
