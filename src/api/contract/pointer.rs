//! JSON pointers (RFC 6901) into text. No tree is built: an answer may echo a workload of any depth and size.

use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Number, Value};

/// The first pointer's value that is a non-empty string or a number.
pub(super) fn text_at(document: &RawValue, pointers: &[String]) -> Option<String> {
    let mut found = pointers.iter().filter_map(|pointer| at(document, pointer));
    found.find_map(text)
}

fn text(value: &RawValue) -> Option<String> {
    match value.get().as_bytes().first()? {
        b'"' => serde_json::from_str::<String>(value.get())
            .ok()
            .filter(|text| !text.is_empty()),
        b'-' | b'0'..=b'9' => serde_json::from_str::<Number>(value.get())
            .ok()
            .map(|number| Value::Number(number).to_string()),
        _ => None,
    }
}

/// The value that a pointer names; of members with the same key the last one.
fn at<'a>(document: &'a RawValue, pointer: &str) -> Option<&'a RawValue> {
    let names = pointer.split('/').skip(1);
    names.map(unescaped).try_fold(document, |value, name| {
        match value.get().as_bytes().first()? {
            b'{' => {
                let members: HashMap<String, &RawValue> = serde_json::from_str(value.get()).ok()?;
                members.get(&name).copied()
            }
            b'[' => {
                let index: usize = name.parse().ok().filter(|_| is_index(&name))?;
                let items: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
                items.get(index).copied()
            }
            _ => None,
        }
    })
}

fn is_index(name: &str) -> bool {
    name == "0" || name.starts_with(|first: char| matches!(first, '1'..='9'))
}

fn unescaped(name: &str) -> String {
    name.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(document: &Value, pointer: &str) -> Option<Value> {
        let text = document.to_string();
        let raw: &RawValue = serde_json::from_str(&text).unwrap();
        at(raw, pointer).map(|value| serde_json::from_str(value.get()).unwrap())
    }

    #[test]
    fn a_pointer_finds_what_it_finds_in_a_tree() {
        let document = json!({
            "a/b": {"m~n": [0, {"x": "y"}]}, "": 1, "list": ["z"], "01": true, "text": "t",
        });
        for pointer in [
            "",
            "/",
            "/a~1b/m~0n/1/x",
            "/a~1b/m~0n/01",
            "/list/0",
            "/list/00",
            "/list/-",
            "/list/+0",
            "/list/1",
            "/01",
            "/text/0",
            "/none",
            "/a~1b",
        ] {
            assert_eq!(
                found(&document, pointer).as_ref(),
                document.pointer(pointer),
                "{pointer}"
            );
        }
    }

    /// Proves: F-heavy
    #[test]
    fn what_is_deep_beside_it_is_no_obstacle() {
        let text = format!(
            r#"{{"workload":{}{},"runId":"r"}}"#,
            "[".repeat(5000),
            "]".repeat(5000)
        );
        let raw: &RawValue = serde_json::from_str(&text).unwrap();
        assert_eq!(text_at(raw, &["/runId".to_owned()]).as_deref(), Some("r"));
    }
}
