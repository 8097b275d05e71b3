//! The keys of `values.yaml`, with the descriptions from its comments.

use serde_json::Value;

use crate::common::{Outcome, parse_yaml};

const FILE: &str = "values.yaml";

/// One key, an inner one or a value.
pub(super) struct Key {
    pub(super) path: Vec<String>,
    pub(super) section: String,
    pub(super) description: String,
    /// Restrictions of the value, beyond the type of its default.
    pub(super) rules: Option<Value>,
    pub(super) default: Value,
    /// True if the keys below it are the chart's; those of a value are the user's.
    pub(super) inner: bool,
}

impl Key {
    pub(super) fn dotted(&self) -> String {
        self.path.join(".")
    }
}

/// The comment above the next key.
#[derive(Default)]
struct Comment {
    words: Vec<String>,
    rules: Option<Value>,
}

/// Reads the keys in their order. A key without a description is an error.
pub(super) fn of(text: &str) -> Outcome<Vec<Key>> {
    let values = parse_yaml(text, FILE)?;
    let mut keys: Vec<Key> = Vec::new();
    let mut section = String::new();
    let mut above = Comment::default();
    // The keys that the line is in: indentation, name, and whether they are the chart's.
    let mut open: Vec<(usize, String, bool)> = Vec::new();
    for line in text.lines() {
        let words = line.trim_start();
        if let Some(title) = words.strip_prefix("# @section ") {
            title.clone_into(&mut section);
        } else if let Some(rules) = words.strip_prefix("# @schema ") {
            above.rules = Some(parse_yaml(rules, FILE)?);
        } else if let Some(comment) = words.strip_prefix('#') {
            above.words.push(comment.trim().to_owned());
        } else if words.is_empty() {
            above = Comment::default();
        } else {
            let indent = line.len() - words.len();
            open.retain(|(outer, ..)| *outer < indent);
            let comment = std::mem::take(&mut above);
            let Some((name, _)) = words.split_once(':').filter(|_| !words.starts_with('-')) else {
                continue;
            };
            if open.iter().any(|(.., inner)| !inner) {
                continue;
            }
            let outer = open.iter().map(|(_, name, _)| name.clone());
            let path: Vec<String> = outer.chain([name.to_owned()]).collect();
            let key = key(path, &section, comment, &values)?;
            open.push((indent, name.to_owned(), key.inner));
            keys.push(key);
        }
    }
    Ok(keys)
}

fn key(path: Vec<String>, section: &str, comment: Comment, values: &Value) -> Outcome<Key> {
    let default = values.pointer(&format!("/{}", path.join("/")));
    let default = default.ok_or_else(|| format!("values.yaml: {path:?} is not read right"))?;
    let rules = comment.rules.as_ref();
    let open_ended = rules.is_some_and(|rules| rules.get("additionalProperties").is_some());
    let key = Key {
        inner: default.as_object().is_some_and(|map| !map.is_empty()) && !open_ended,
        path,
        section: section.to_owned(),
        description: comment.words.join(" "),
        rules: comment.rules,
        default: default.clone(),
    };
    if !key.inner && key.description.is_empty() {
        return Err(format!("values.yaml: {} has no description", key.dotted()).into());
    }
    Ok(key)
}
