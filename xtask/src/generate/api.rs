//! `docs/api.md`, from the schemas that the API server checks objects by.

use std::fmt::Write as _;

use run_operator::api::crd;
use serde_json::Value;

use super::{Generated, cell};
use crate::common::Outcome;

/// Objects with fewer fields than this are written out wherever they are.
const FEW: usize = 3;

/// The fields and columns that the page has already, each with the link to where: they are not repeated.
#[derive(Default)]
struct Described(Vec<(String, Value)>);

impl Described {
    /// The link to these same fields.
    fn link(&self, fields: &Value) -> Option<&str> {
        let fields = without_defaults(fields);
        let same = self.0.iter().find(|(_, earlier)| *earlier == fields);
        same.map(|(link, _)| link.as_str())
    }

    /// The most fields described so far that are all among these: a `ClusterWorkspace` has all of a `Workspace`.
    fn within(&self, fields: &Value) -> Option<&(String, Value)> {
        let fields = without_defaults(fields);
        let all_here =
            |earlier: &Value| object(earlier).all(|(name, field)| fields[name] == *field);
        let objects = self.0.iter().filter(|(_, earlier)| earlier.is_object());
        let within = objects.filter(|(_, earlier)| all_here(earlier));
        within.max_by_key(|(_, earlier)| object(earlier).count())
    }

    fn add(&mut self, link: String, fields: &Value) {
        if object(fields).count() >= FEW && self.link(fields).is_none() {
            self.0.push((link, without_defaults(fields)));
        }
    }
}

/// A template's fields have no defaults, and are the same otherwise: those of a Run are filled in when it is created.
fn without_defaults(fields: &Value) -> Value {
    let mut fields = fields.clone();
    for (_, field) in fields.as_object_mut().into_iter().flatten() {
        if let Some(field) = field.as_object_mut() {
            field.remove("default");
        }
    }
    fields
}

/// The page.
pub(super) fn page() -> Outcome<Vec<Generated>> {
    let mut sections = String::new();
    let mut described = Described::default();
    for crd in crd::all() {
        kind(&mut sections, &serde_json::to_value(crd)?, &mut described);
    }
    super::page("docs/api.md", &sections)
}

fn kind(page: &mut String, crd: &Value, described: &mut Described) {
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
        let title = format!("{kind} {part}");
        table(page, &title, &schema["properties"][part], described);
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
    columns(page, kind, &version["additionalPrinterColumns"], described);
}

/// The fields of a spec or a status, but for those that an earlier one has too.
fn table(page: &mut String, title: &str, schema: &Value, described: &mut Described) {
    let fields = &schema["properties"];
    if object(fields).next().is_none() {
        return;
    }
    let _ = write!(page, "\n### {title}\n");
    let within = described.within(fields).cloned();
    described.add(format!("[{title}](#{})", anchor(title)), fields);
    let mut own = schema.clone();
    if let Some((link, earlier)) = within {
        let _ = writeln!(page, "The fields of the {link}.");
        if let Some(fields) = own["properties"].as_object_mut() {
            fields.retain(|name, _| earlier.get(name).is_none());
        }
        if object(&own["properties"]).next().is_none() {
            return;
        }
        page.push_str("And these:\n\n");
    }
    page.push_str("| field | type | meaning |\n|---|---|---|\n");
    rows(page, title, "", &own, described);
}

/// A row for each field, and below it for its own fields.
fn rows(page: &mut String, title: &str, above: &str, schema: &Value, described: &mut Described) {
    // Of the outermost, those that a rule of the schema has written once: it compares with the old value.
    let once = |name: &str| {
        let mut rules = all(&schema["x-kubernetes-validations"])
            .filter(|rule| text(&rule["rule"]).contains("oldSelf"));
        above.is_empty() && rules.any(|rule| rule["fieldPath"] == format!(".{name}"))
    };
    for (name, field) in object(&schema["properties"]) {
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
        let (inner, below) = match text(&field["type"]) {
            "array" => (&field["items"], format!("{path}[]")),
            _ => (field, path.clone()),
        };
        let link = described.link(&inner["properties"]);
        if let Some(link) = link {
            let _ = write!(meaning, " Its fields: {link}.");
        }
        let (known, kind, limits) = (link.is_some(), kind_of(field), limits(field));
        let _ = writeln!(page, "| `{path}` | {kind} | {meaning}{limits} |");
        if !known {
            let link = format!("[`{below}` of the {title}](#{})", anchor(title));
            described.add(link, &inner["properties"]);
            rows(page, title, &below, inner, described);
        }
    }
}

/// The anchor of a heading.
fn anchor(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
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

fn columns(page: &mut String, kind: &str, columns: &Value, described: &mut Described) {
    let title = format!("{kind} columns");
    let _ = write!(page, "\n### {title}\n");
    if let Some(link) = described.link(columns) {
        let _ = writeln!(page, "The {link}.");
        return;
    }
    let link = format!("[{title}](#{})", anchor(&title));
    described.0.push((link, columns.clone()));
    page.push_str("What `kubectl get` shows; `-o wide` shows all.\n\n");
    page.push_str("| column | meaning |\n|---|---|\n");
    for column in all(columns) {
        let wide = match column["priority"].as_i64() {
            Some(1..) => " (wide)",
            _ => "",
        };
        let (name, meaning) = (text(&column["name"]), cell(text(&column["description"])));
        let _ = writeln!(page, "| {name}{wide} | {meaning} |");
    }
}

/// The entries of an object; none where it is no object.
fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn all(values: &Value) -> impl Iterator<Item = &Value> {
    values.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
