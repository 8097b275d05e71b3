//! The document's operations, each with what is needed to check a request.

use std::sync::LazyLock;

use serde_json::Value;

use super::schema::Schema;

/// The document, read once.
static DOCUMENT: LazyLock<Document> = LazyLock::new(|| {
    let text = include_str!("../../../../contract/openapi.yaml");
    Document::of(serde_saphyr::from_str(text).unwrap())
});

/// The place of a parameter in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Header,
    Path,
    Query,
}

/// A parameter of an operation.
pub struct Parameter {
    /// A header's in lower case.
    pub name: String,
    pub place: Place,
    pub required: bool,
    pub schema: Schema,
}

/// The body of an operation's requests.
pub struct Body {
    pub required: bool,
    /// By media type.
    pub schemas: Vec<(String, Schema)>,
}

/// An operation of the document.
pub struct Operation {
    pub id: String,
    /// In capitals.
    pub method: String,
    pub template: String,
    /// No token is sent.
    pub public: bool,
    pub parameters: Vec<Parameter>,
    /// None where no body is known.
    pub body: Option<Body>,
    /// Media types of its successful answers.
    pub answers: Vec<String>,
}

/// The document, whole and by its operations.
pub struct Document {
    pub value: Value,
    pub operations: Vec<Operation>,
}

impl Document {
    /// `contract/openapi.yaml`.
    pub fn pinned() -> &'static Self {
        &DOCUMENT
    }

    fn of(value: Value) -> Self {
        let mut operations = Vec::new();
        for (template, item) in value["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                operations.push(read(&value, method, template, operation));
            }
        }
        Self { value, operations }
    }

    /// Follows a `$ref` within the document.
    pub fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        resolve(&self.value, value)
    }
}

fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(reference) => document
            .pointer(reference.trim_start_matches('#'))
            .unwrap_or_else(|| panic!("{reference} leads nowhere")),
        None => value,
    }
}

fn read(document: &Value, method: &str, template: &str, operation: &Value) -> Operation {
    let parameters = operation["parameters"].as_array();
    let security = operation.get("security").unwrap_or(&document["security"]);
    Operation {
        id: operation["operationId"].as_str().unwrap().to_owned(),
        method: method.to_uppercase(),
        template: template.to_owned(),
        public: security.as_array().is_none_or(Vec::is_empty),
        parameters: parameters
            .into_iter()
            .flatten()
            .map(|value| parameter(document, value))
            .collect(),
        body: operation.get("requestBody").map(|body| Body {
            required: body["required"] == true,
            schemas: contents(body)
                .map(|(kind, content)| (kind, Schema::of(document, &content["schema"])))
                .collect(),
        }),
        answers: contents(&operation["responses"]["2XX"])
            .map(|(kind, _)| kind)
            .collect(),
    }
}

/// Media types with the description of each.
fn contents(of: &Value) -> impl Iterator<Item = (String, &Value)> {
    let contents = of["content"].as_object().into_iter().flatten();
    contents.map(|(kind, content)| (kind.clone(), content))
}

fn parameter(document: &Value, value: &Value) -> Parameter {
    let value = resolve(document, value);
    let name = value["name"].as_str().unwrap();
    let (place, name) = match value["in"].as_str() {
        Some("header") => (Place::Header, name.to_lowercase()),
        Some("path") => (Place::Path, name.to_owned()),
        Some("query") => (Place::Query, name.to_owned()),
        other => panic!("a parameter in {other:?}, which tests/support/src/openapi does not read"),
    };
    Parameter {
        name,
        place,
        required: value["required"] == true,
        schema: Schema::of(document, &value["schema"]),
    }
}
