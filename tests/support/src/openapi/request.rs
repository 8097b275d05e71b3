//! A request as it arrived, and where it differs from the document.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde_json::Value;
use serde_json::value::RawValue;

use super::document::{Body, Document, Operation, Place};
use super::schema::Schema;

/// The part of the base URL that the document's paths follow.
const BASE: &str = "/api/v1";

/// Headers that HTTP itself needs; the document doesn't list them.
const TRANSPORT: [&str; 5] = [
    "accept",
    "accept-encoding",
    "content-length",
    "host",
    "user-agent",
];

/// A request as it arrived.
#[derive(Debug, Default)]
pub struct Request {
    pub method: String,
    /// Path and query, with the base URL's path.
    pub target: String,
    /// By name in lower case; several of one name joined by ", ".
    pub headers: BTreeMap<String, String>,
    /// None where it is no text.
    pub body: Option<String>,
}

impl Request {
    /// The operation that this is, by its method and path.
    ///
    /// # Errors
    /// Says why it is none.
    pub fn operation<'a>(&self, document: &'a Document) -> Result<&'a Operation, String> {
        let path = self.target.split('?').next().unwrap_or_default();
        let path = path
            .strip_prefix(BASE)
            .ok_or_else(|| format!("the path {path} is not below {BASE}"))?;
        // Of `/runs/{runId}` and `/runs/{runId}:cancel` the longer one is meant.
        let template = document
            .operations
            .iter()
            .map(|operation| operation.template.as_str())
            .filter(|template| parameters_of(template, path).is_some())
            .max_by_key(|template| template.len())
            .ok_or_else(|| format!("the path {path} is not declared"))?;
        let mut of_path = document.operations.iter();
        of_path
            .find(|operation| operation.template == template && operation.method == self.method)
            .ok_or_else(|| format!("{} is not declared for {template}", self.method))
    }

    /// The differences from the document; none when it conforms.
    pub fn violations(&self, document: &Document) -> Vec<String> {
        match self.operation(document) {
            Err(why) => vec![why],
            Ok(operation) => {
                let mut found = self.wrong_parameters(operation);
                found.extend(self.wrong_headers(operation));
                found.extend(self.wrong_body(operation.body.as_ref()));
                found
            }
        }
    }

    fn wrong_parameters(&self, operation: &Operation) -> Vec<String> {
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let path = path.strip_prefix(BASE).unwrap_or_default();
        let in_path = parameters_of(&operation.template, path).unwrap_or_default();
        let in_query: BTreeMap<&str, &str> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .collect();
        let mut found = Vec::new();
        for parameter in &operation.parameters {
            let name = &parameter.name;
            let value = match parameter.place {
                Place::Header => self.headers.get(name).cloned().map(Ok),
                Place::Path => in_path.get(name.as_str()).map(|value| decoded(value)),
                Place::Query => in_query.get(name.as_str()).map(|value| decoded(value)),
            };
            match value {
                None if parameter.required => found.push(format!("{name} is missing")),
                None => {}
                Some(Err(why)) => found.push(format!("{name} {why}")),
                Some(Ok(value)) => found.extend(unlike(&parameter.schema, &value.into(), name)),
            }
        }
        let declared = |place, name: &str| {
            let mut all = operation.parameters.iter();
            all.any(|parameter| parameter.place == place && parameter.name == name)
        };
        for name in in_query.keys().filter(|name| !declared(Place::Query, name)) {
            found.push(format!("the query parameter {name} is not declared"));
        }
        let own = ["authorization", "content-type"];
        for name in self.headers.keys().filter(|name| {
            !declared(Place::Header, name)
                && !TRANSPORT.contains(&name.as_str())
                && !own.contains(&name.as_str())
        }) {
            found.push(format!("the header {name} is not declared"));
        }
        found
    }

    fn wrong_headers(&self, operation: &Operation) -> Vec<String> {
        let mut found = Vec::new();
        let token = self.headers.get("authorization").map(|value| {
            let token = value.strip_prefix("Bearer ").unwrap_or_default();
            !token.is_empty() && !token.contains([' ', ','])
        });
        match (operation.public, token) {
            (true, Some(_)) => found.push("a token goes along where none belongs".to_owned()),
            (false, None) => found.push("the token is missing".to_owned()),
            (false, Some(false)) => found.push("authorization is not one Bearer token".to_owned()),
            (true, None) | (false, Some(true)) => {}
        }
        if let Some(accept) = self.headers.get("accept") {
            let allowed = accept.split(',').map(|range| range.split(';').next());
            let allows = |kind: &String| {
                let mut ranges = allowed.clone().flatten().map(str::trim);
                ranges.any(|range| range == "*/*" || range == kind)
            };
            if !operation.answers.is_empty() && !operation.answers.iter().any(allows) {
                found.push(format!("accept: {accept} allows none of the answers"));
            }
        }
        found
    }

    fn wrong_body(&self, declared: Option<&Body>) -> Vec<String> {
        let kind = self.headers.get("content-type");
        let Some(text) = &self.body else {
            return vec!["the body is no text".to_owned()];
        };
        let Some(declared) = declared else {
            let body = (!text.is_empty()).then(|| "there is a body where none is known".to_owned());
            let kind = kind.map(|kind| format!("content-type: {kind}, where no body is known"));
            return body.into_iter().chain(kind).collect();
        };
        if text.is_empty() && !declared.required {
            return Vec::new();
        }
        let Some(kind) = kind else {
            return vec!["content-type is missing".to_owned()];
        };
        let mut schemas = declared.schemas.iter();
        let Some((_, schema)) = schemas.find(|(declared, _)| declared == kind) else {
            return vec![format!("content-type: {kind} is not declared")];
        };
        match serde_json::from_str(text) {
            Ok(body) => unlike(schema, &body, "the body"),
            // The schemas leave open what is in a workload; a tree of it has 128 levels at most.
            Err(_) if is_deep_json(text) => Vec::new(),
            Err(error) => vec![format!("the body is no JSON: {error}")],
        }
    }
}

/// True if a text is a JSON object whose only fault is that it is nested too deeply for a tree.
fn is_deep_json(text: &str) -> bool {
    let members: Result<BTreeMap<String, &RawValue>, _> = serde_json::from_str(text);
    members.is_ok() && text.matches(['[', '{']).count() > 127
}

/// The values of a template's parameters, as they are in a path; none when the path is another one.
fn parameters_of<'a>(template: &'a str, path: &'a str) -> Option<BTreeMap<&'a str, &'a str>> {
    let mut values = BTreeMap::new();
    let (mut templates, mut segments) = (template.split('/'), path.split('/'));
    loop {
        match (templates.next(), segments.next()) {
            (None, None) => return Some(values),
            (Some(template), Some(segment)) => match template.split_once('{') {
                None if template == segment => {}
                None => return None,
                Some((before, rest)) => {
                    let (name, after) = rest.split_once('}')?;
                    let value = segment.strip_prefix(before)?.strip_suffix(after)?;
                    values.insert(name, value);
                }
            },
            _ => return None,
        }
    }
}

/// Decodes a percent-encoded part of a path or query. Everything reserved must be encoded.
fn decoded(value: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
    if !value.bytes().all(plain) {
        return Err(format!("holds a character that must be encoded: {value}"));
    }
    percent_decode_str(value)
        .decode_utf8()
        .map(String::from)
        .map_err(|_| format!("is not UTF-8: {value}"))
}

fn unlike(schema: &Schema, value: &Value, what: &str) -> Vec<String> {
    let found = schema.differences(value).into_iter();
    found
        .map(|difference| format!("{what} {difference}"))
        .collect()
}
