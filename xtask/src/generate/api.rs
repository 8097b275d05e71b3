//! `docs/api.md`, from the schemas that the API server checks objects by.

use std::fmt::Write as _;

use run_operator::api::crd;
use serde_json::Value;

use super::{Generated, cell};
use crate::common::Outcome;

/// The page.
pub(super) fn page() -> Outcome<Vec<Generated>> {
    let mut sections = String::new();
    for crd in crd::all() {
        kind(&mut sections, &serde_json::to_value(crd)?);
    }
    super::page("docs/api.md", &sections)
}

fn kind(page: &mut String, crd: &Value) {
    let names = &crd["spec"]["names"];
    let version = &crd["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    let (kind, plural) = (text(&names["kind"]), text(&names["plural"]));
    let scope = match text(&crd["spec"]["scope"]) {
        "Namespaced" => "namespaced",
        _ => "cluster-scoped",
    };
    let short: Vec<&str> = all(&names["shortNames"]).map(text).collect();
    let short = short.join("`, `");
    let description = text(&schema["description"]);
    let _ = write!(
        page,
        "\n## {kind}\n{description}\n\n`{plural}.run-operator.dev`, {scope}; short name `{short}`.\n"
    );
    for part in ["spec", "status"] {
        let _ = write!(page, "\n### {kind} {part}\n");
        page.push_str("| field | type | meaning |\n|---|---|---|\n");
        rows(page, "", &schema["properties"][part]);
    }
    let fields = all(&version["selectableFields"])
        .map(|field| text(&field["jsonPath"]).trim_start_matches('.'));
    let fields = fields.collect::<Vec<_>>().join("`, `");
    if !fields.is_empty() {
        let _ = write!(
            page,
            "\n### {kind} field selectors\nWhat `--field-selector` takes: `{fields}`.\n"
        );
    }
    columns(page, kind, version);
}

/// A row for each field, and below it for its own fields.
fn rows(page: &mut String, above: &str, schema: &Value) {
    // Of the outermost, those that a rule of the schema has written once.
    let once = |name: &str| {
        let mut rules = all(&schema["x-kubernetes-validations"]);
        above.is_empty() && rules.any(|rule| rule["fieldPath"] == format!(".{name}"))
    };
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = match above {
            "" => name.clone(),
            above => format!("{above}.{name}"),
        };
        let mut meaning = cell(text(&field["description"]));
        let required = all(&schema["required"]).any(|field| field == name);
        if required && !meaning.contains("required") {
            meaning.push_str(" Required.");
        }
        let said = ["mmutable", "Written once", "Can't be changed"];
        if once(name) && !said.iter().any(|words| meaning.contains(words)) {
            meaning.push_str(" Immutable.");
        }
        let (kind, limits) = (kind_of(field), limits(field));
        let _ = writeln!(page, "| `{path}` | {kind} | {meaning}{limits} |");
        if field["type"] == "array" {
            rows(page, &format!("{path}[]"), &field["items"]);
        } else {
            rows(page, &path, field);
        }
    }
}

fn kind_of(field: &Value) -> String {
    match text(&field["type"]) {
        "string" if field["format"] == "date-time" => "time".to_owned(),
        "string" if field["enum"].is_array() => {
            let values = all(&field["enum"]).map(|value| format!("`{}`", text(value)));
            values.collect::<Vec<_>>().join(", ")
        }
        "array" => format!("list of {}", kind_of(&field["items"])),
        other => other.to_owned(),
    }
}

/// The limits that the API server checks, unless the description has them.
fn limits(field: &Value) -> String {
    let description = text(&field["description"]);
    let mut limits = Vec::new();
    for (name, words, unit) in [
        ("minimum", "at least", ""),
        ("maximum", "at most", ""),
        ("maxLength", "at most", " characters"),
        ("maxItems", "at most", " items"),
    ] {
        if let Some(bound) = field[name].as_f64() {
            let bound = format!("{bound:.0}");
            if !description.contains(&bound) {
                limits.push(format!("{words} {bound}{unit}"));
            }
        }
    }
    match limits.as_slice() {
        [] => String::new(),
        limits => format!(" ({})", limits.join(", ")),
    }
}

fn columns(page: &mut String, kind: &str, version: &Value) {
    let _ = write!(
        page,
        "\n### {kind} columns\nWhat `kubectl get` shows; `-o wide` shows all.\n\n| column | meaning |\n|---|---|\n"
    );
    for column in all(&version["additionalPrinterColumns"]) {
        let wide = match column["priority"].as_i64() {
            Some(1..) => " (wide)",
            _ => "",
        };
        let (name, meaning) = (text(&column["name"]), cell(text(&column["description"])));
        let _ = writeln!(page, "| {name}{wide} | {meaning} |");
    }
}

fn all(values: &Value) -> impl Iterator<Item = &Value> {
    values.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
