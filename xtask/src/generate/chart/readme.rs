//! The tables of values in the chart's README.

use std::fmt::Write;

use serde_json::Value;

use super::keys::Key;
use super::schema::type_of;
use crate::common::Outcome;

const BEGIN: &str = "<!-- values: begin -->\n";
const END: &str = "<!-- values: end -->";

/// The text, with new tables between its two marks.
pub(super) fn with_tables(text: &str, keys: &[Key]) -> Outcome<String> {
    let missing = || format!("the chart's README lacks {} and {END}", BEGIN.trim());
    let (before, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", tables(keys)))
}

fn tables(keys: &[Key]) -> String {
    let mut text = String::new();
    let mut section = "";
    for key in keys.iter().filter(|key| !key.inner) {
        if key.section != section {
            section = &key.section;
            let _ = write!(
                text,
                "\n### {section}\n| value | type | default | meaning |\n|---|---|---|---|\n"
            );
        }
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            key.dotted(),
            type_name(key),
            default(&key.default),
            key.description.replace('|', "\\|"),
        );
    }
    text + "\n"
}

fn type_name(key: &Key) -> String {
    let rules = key.rules.as_ref();
    match rules.and_then(|rules| rules.get("type")) {
        Some(Value::Array(types)) => {
            let types = types.iter().filter_map(Value::as_str);
            types.collect::<Vec<_>>().join(", ")
        }
        _ => type_of(&key.default).to_owned(),
    }
}

fn default(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "unset".to_owned(),
        Value::String(text) => format!("`{text}`"),
        Value::Null => "`null`".to_owned(),
        value => format!("`{value}`"),
    }
}
