//! `docs/api.md`, from the schemas that the API server checks objects by.

use std::fmt::Write as _;

use run_operator::api::crd;
use serde_json::Value;

use super::{Generated, Outcome};

const HEAD: &str = "\
<!-- Written by `make generate` from src/api. -->
# API reference

The fields of `run-operator.dev/v1alpha1`, from the schemas that the API server checks objects by; `kubectl explain
runs.run-operator.dev.spec` shows the same. No field has a default in the schema, so that GitOps tools see no drift: a
description says what holds for an unset field, and the status shows what is in force. Times are of whole seconds.

[conditions.md](conditions.md) has the conditions of a Run in each situation, [reasons.md](reasons.md) every reason and
what to do, [recipes.md](recipes.md) complete manifests.
";

/// The page.
pub(super) fn page() -> Outcome<Vec<Generated>> {
    let mut page = HEAD.to_owned();
    for crd in [crd::run(), crd::workspace(), crd::cluster_workspace()] {
        kind(&mut page, &serde_json::to_value(crd)?);
    }
    Ok(vec![Generated::new("docs/api.md", page)])
}

fn kind(page: &mut String, crd: &Value) {
    let names = &crd["spec"]["names"];
    let version = &crd["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    let kind = text(&names["kind"]);
    let scope = if crd["spec"]["scope"] == "Namespaced" {
        "namespaced"
    } else {
        "cluster-scoped"
    };
    let short: Vec<&str> = names["shortNames"]
        .as_array()
        .into_iter()
        .flatten()
        .map(text)
        .collect();
    let _ = write!(
        page,
        "\n## {kind}\n{}\n\n`{}.run-operator.dev`, {scope}; short name `{}`.\n",
        text(&schema["description"]),
        text(&names["plural"]),
        short.join("`, `")
    );
    for part in ["spec", "status"] {
        let _ = write!(page, "\n### {kind} {part}\n");
        let part_schema = &schema["properties"][part];
        page.push_str("| field | type | meaning |\n|---|---|---|\n");
        rows(page, "", part_schema, &rules(part_schema));
    }
    columns(page, kind, version);
}

/// A row for each field, and below it for its own fields.
fn rows(page: &mut String, above: &str, schema: &Value, immutable: &[String]) {
    let required = |name: &str| {
        let all = schema["required"].as_array();
        all.into_iter().flatten().any(|field| field == name)
    };
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if above.is_empty() {
            name.clone()
        } else {
            format!("{above}.{name}")
        };
        let mut meaning = words(&field["description"]);
        if required(name) && !meaning.contains("required") {
            meaning.push_str(" Required.");
        }
        let said = ["mmutable", "Written once", "Can't be changed"];
        if above.is_empty()
            && immutable.contains(name)
            && !said.iter().any(|words| meaning.contains(words))
        {
            meaning.push_str(" Immutable.");
        }
        let _ = writeln!(
            page,
            "| `{path}` | {} | {meaning}{} |",
            kind_of(field),
            limits(field)
        );
        if field["type"] == "array" {
            rows(page, &format!("{path}[]"), &field["items"], &[]);
        } else {
            rows(page, &path, field, &[]);
        }
    }
}

/// The fields that a rule of the schema has written once.
fn rules(schema: &Value) -> Vec<String> {
    let rules = schema["x-kubernetes-validations"].as_array();
    let rules = rules
        .into_iter()
        .flatten()
        .filter_map(|rule| rule["fieldPath"].as_str());
    rules
        .map(|path| path.trim_start_matches('.').to_owned())
        .collect()
}

fn kind_of(field: &Value) -> String {
    let plain = match text(&field["type"]) {
        "string" if field["format"] == "date-time" => "time",
        "string" if field["enum"].is_array() => "one of",
        "array" => return format!("list of {}", kind_of(&field["items"])),
        other => other,
    };
    if plain == "one of" {
        let values = field["enum"].as_array().into_iter().flatten().map(text);
        let values: Vec<String> = values.map(|value| format!("`{value}`")).collect();
        return values.join(", ");
    }
    plain.to_owned()
}

/// The limits that the API server checks, unless the description has them.
fn limits(field: &Value) -> String {
    let description = text(&field["description"]);
    let mut limits = Vec::new();
    let mut add = |name: &str, unit: &str| {
        if let Some(bound) = field[name].as_f64() {
            let bound = format!("{bound:.0}");
            if !description.contains(&bound) {
                limits.push(format!(
                    "{} {bound}{unit}",
                    if name.starts_with("max") {
                        "at most"
                    } else {
                        "at least"
                    }
                ));
            }
        }
    };
    add("minimum", "");
    add("maximum", "");
    add("maxLength", " characters");
    add("maxItems", " items");
    if limits.is_empty() {
        String::new()
    } else {
        format!(" ({})", limits.join(", "))
    }
}

fn columns(page: &mut String, kind: &str, version: &Value) {
    let columns = version["additionalPrinterColumns"].as_array();
    let _ = write!(
        page,
        "\n### {kind} columns\nWhat `kubectl get` shows; `-o wide` shows all.\n\n| column | meaning |\n|---|---|\n"
    );
    for column in columns.into_iter().flatten() {
        let wide = if column["priority"].as_i64().unwrap_or_default() > 0 {
            " (wide)"
        } else {
            ""
        };
        let _ = writeln!(
            page,
            "| {}{wide} | {} |",
            text(&column["name"]),
            words(&column["description"])
        );
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn words(value: &Value) -> String {
    let words = text(value).split_whitespace().collect::<Vec<_>>().join(" ");
    words.replace('|', "\\|")
}
